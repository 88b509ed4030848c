#include "runtime/control/secret.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <hmc/error.hpp>

namespace hmc::control {
namespace {

std::string hex_of(const Mac& mac) { return Secret::from_bytes(mac).hex(); }

/// RFC 4231 uses keys shorter than a Secret. HMAC pads keys with zeros, so a key padded to 32 bytes is equivalent.
Secret padded(base::ByteView key) {
  std::array<std::byte, Secret::bytes> bytes{};
  std::copy(key.begin(), key.end(), bytes.begin());
  return Secret::from_bytes(bytes);
}

TEST(Secret, signature_matches_rfc_4231) {
  EXPECT_EQ(hex_of(padded(base::as_bytes("Jefe")).sign(base::as_bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  const std::string key(20, '\x0b');
  EXPECT_EQ(hex_of(padded(base::as_bytes(key)).sign(base::as_bytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  const std::string other_key(20, '\xaa');
  const std::string data(50, '\xdd');
  EXPECT_EQ(hex_of(padded(base::as_bytes(other_key)).sign(base::as_bytes(data))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

TEST(Secret, parts_are_signed_as_one_message) {
  const Secret secret = Secret::random();
  EXPECT_EQ(secret.sign({base::as_bytes("one"), base::as_bytes(""), base::as_bytes("two")}),
            secret.sign(base::as_bytes("onetwo")));
}

TEST(Secret, hex_form_is_parsed_back) {
  const Secret secret = Secret::random();
  EXPECT_EQ(Secret::from_hex(secret.hex()).key(), secret.key());
  EXPECT_NE(Secret::random().key(), secret.key());
}

TEST(Secret, invalid_hex_is_rejected_and_not_repeated) {
  for (const std::string& bad : {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g')}) {
    try {
      (void)Secret::from_hex(bad);
      ADD_FAILURE() << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_config);
      EXPECT_EQ(std::string(error.what()).find(bad.empty() ? "no such" : bad), std::string::npos);
    }
  }
}

TEST(Secret, derived_keys_depend_on_purpose_and_secret) {
  const Secret secret = Secret::random();
  EXPECT_NE(secret.derive({base::as_bytes("a")}).key(), secret.derive({base::as_bytes("b")}).key());
  EXPECT_NE(secret.derive({base::as_bytes("a")}).key(), Secret::random().derive({base::as_bytes("a")}).key());
}

}  // namespace
}  // namespace hmc::control
