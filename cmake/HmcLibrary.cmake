# Two libraries from the same objects.

get_property(rooms GLOBAL PROPERTY HMC_ROOMS)
get_property(links GLOBAL PROPERTY HMC_LINKS)
list(REMOVE_DUPLICATES links)
if(HMC_CRYPTO_ARCHIVE)
  list(TRANSFORM links REPLACE "^OpenSSL::Crypto$" ${HMC_CRYPTO_ARCHIVE})
endif()
set(objects)
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:${room}>)
endforeach()

# The library for users: only symbols marked HMC_API are visible.
add_library(hmc SHARED ${objects})
add_library(hmc::hmc ALIAS hmc)
target_include_directories(hmc PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(hmc PUBLIC cxx_std_20)
# Its dependencies are private. CMake would export the names of imported shared libraries, which consumers don't define,
# so those are linked as files.
target_link_libraries(hmc PRIVATE $<BUILD_INTERFACE:hmc_flags> -Wl,--exclude-libs,libcrypto.a)
foreach(link IN LISTS links)
  set(type)
  if(TARGET ${link})
    get_target_property(type ${link} TYPE)
  endif()
  if(type STREQUAL "SHARED_LIBRARY")
    set(link $<TARGET_LINKER_FILE:${link}>)
  endif()
  target_link_libraries(hmc PRIVATE ${link})
endforeach()
set_target_properties(hmc PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# The static library, which is installed too. Tools and tests use its internal symbols.
add_library(hmc_internal STATIC ${objects})
set_target_properties(hmc_internal PROPERTIES OUTPUT_NAME hmc)
target_link_libraries(hmc_internal PUBLIC hmc_flags Threads::Threads ${links})
