#include "compat/memfabric/trans.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include <string_view>

namespace hmc::memfabric {
namespace {

constexpr int most_peers = 512;
constexpr std::size_t parts_of_slot = 2;
constexpr std::uint64_t part_bytes = block_bytes;
constexpr std::uint64_t slot_bytes = parts_of_slot * part_bytes;
constexpr std::size_t most_pieces = 32768;  // of one request, which has at most 1 MiB

enum class Request : std::uint32_t { check, fetch, store, name };

/// A request: this header, the name of the peer that is meant, and the pieces.
struct RequestHeader {
  Request kind;
  std::uint32_t name_bytes;
  std::uint64_t pieces;
  std::uint64_t at;  // the bytes are in the caller's part from here on
};
/// The owner's memory, in the order of the caller's part.
struct OwnerPiece {
  std::uint64_t address;
  std::uint64_t bytes;
};
static_assert(std::is_trivially_copyable_v<RequestHeader> && std::is_trivially_copyable_v<OwnerPiece>);
static_assert(sizeof(RequestHeader) + 128 + most_pieces * sizeof(OwnerPiece) <= 1 << 20);

std::string encode(Request kind, const std::string& name, std::span<const OwnerPiece> pieces, std::uint64_t at) {
  const RequestHeader header{kind, static_cast<std::uint32_t>(name.size()), pieces.size(), at};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  text += name;
  text.append(reinterpret_cast<const char*>(pieces.data()), pieces.size_bytes());
  return text;
}

struct Decoded {
  Request kind{};
  std::string name;
  std::vector<OwnerPiece> pieces;
  std::uint64_t at = 0;
};
Decoded decode(std::string_view text) {
  RequestHeader header{};
  require(text.size() >= sizeof header, "the request is malformed");
  std::memcpy(&header, text.data(), sizeof header);
  text.remove_prefix(sizeof header);
  require(header.kind <= Request::name && header.name_bytes <= text.size(), "the request is malformed");
  Decoded decoded{header.kind, std::string(text.substr(0, header.name_bytes)), {}, header.at};
  text.remove_prefix(header.name_bytes);
  require(header.pieces <= most_pieces && text.size() == header.pieces * sizeof(OwnerPiece),
          "the request is malformed");
  decoded.pieces.resize(header.pieces);
  if (!text.empty()) std::memcpy(decoded.pieces.data(), text.data(), text.size());
  return decoded;
}

std::string reply_of(std::int32_t code, const std::string& text) {
  return std::string(reinterpret_cast<const char*>(&code), sizeof code) + text;
}

/// The text of a reply. Throws the peer's Failure.
std::string text_of(const std::string& reply) {
  std::int32_t code = SMEM_ERROR;
  require(reply.size() >= sizeof code, "the reply is malformed");
  std::memcpy(&code, reply.data(), sizeof code);
  std::string text = reply.substr(sizeof code);
  if (code != SMEM_OK) throw Failure(code, text);
  return text;
}

std::string key_of(const std::string& name) { return "rank." + name; }

std::byte* pointer(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

/// A slot of the caller's part, from `at` on. Waits until one is free.
class TransferEngine::Slot {
 public:
  explicit Slot(TransferEngine& engine) : engine_(engine) {
    std::unique_lock lock(engine.slots_mutex_);
    const auto free = [&] { return std::find(engine.slots_.begin(), engine.slots_.end(), slot_free); };
    if (!engine.slot_freed_.wait_for(lock, engine.timeout_, [&] { return free() != engine.slots_.end(); }))
      throw Failure(SMEM_TIMEOUT, "the transfers of other threads don't end");
    index_ = static_cast<std::size_t>(free() - engine.slots_.begin());
    engine.slots_[index_] = slot_in_use;
  }
  ~Slot() { engine_.set_slot(index_, state_); }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  std::uint64_t at() const noexcept { return index_ * slot_bytes; }
  /// A request to this rank has timed out: it may still be executed.
  void is_late(int rank) noexcept { state_ = rank; }

 private:
  TransferEngine& engine_;
  std::size_t index_ = 0;
  int state_ = slot_free;
};

/// One transfer: one chunk that may fill the slot, or several that use the parts of the slot in turn. While the owner
/// copies one, this process copies the next one.
class TransferEngine::Chunks {
 public:
  Chunks(TransferEngine& engine, const Slot& slot, bool is_one, int rank, TransferKind kind, const std::string& peer)
      : engine_(engine),
        at_(slot.at()),
        most_bytes_(is_one ? slot_bytes : part_bytes),
        rank_(rank),
        kind_(kind),
        peer_(peer) {}

  void add(TransferPiece piece) {
    while (piece.bytes > 0) {
      Chunk& chunk = chunks_[filling_];
      const std::uint64_t bytes = std::min(piece.bytes, most_bytes_ - chunk.bytes);
      void* const staged = engine_.pool_.address(engine_.pool_.rank(), PoolPart::host, at(filling_) + chunk.bytes);
      if (kind_ == TransferKind::write)
        chunk.copies.push_back({staged, pointer(piece.local), bytes});
      else
        chunk.copies.push_back({pointer(piece.local), staged, bytes});
      chunk.owned.push_back({piece.remote, bytes});
      chunk.bytes += bytes;
      piece = {piece.local + bytes, piece.remote + bytes, piece.bytes - bytes};
      if (chunk.bytes == most_bytes_ || chunk.owned.size() == most_pieces) next();
    }
  }
  void finish() {
    for (std::size_t i = 0; i < parts_of_slot; ++i) next();
  }
  /// After a failure: waits for the requests in flight. False if one times out: the owner may still access the slot.
  bool end() {
    for (Chunk& each : chunks_) {
      if (!each.request.in_flight()) continue;
      try {
        (void)each.request.wait(engine_.timeout_);
      } catch (const Error& error) {
        if (error.code() == Code::timeout) return false;
      }
    }
    return true;
  }

 private:
  struct Chunk {
    std::vector<PoolCopy> copies;  // of the caller: between its memory and the part of the slot
    std::vector<OwnerPiece> owned;
    std::uint64_t bytes = 0;
    PoolCall request;
  };
  std::uint64_t at(std::size_t part) const noexcept { return at_ + part * part_bytes; }
  /// Starts the chunk that has been filled, and ends the one that has used the next part.
  void next() {
    if (Chunk& chunk = chunks_[filling_]; chunk.bytes > 0) {
      if (kind_ == TransferKind::write) engine_.pool_.copy_batch(chunk.copies);
      const Request kind = kind_ == TransferKind::write ? Request::fetch : Request::store;
      chunk.request = engine_.pool_.start_call(rank_, encode(kind, peer_, chunk.owned, at(filling_)));
    }
    filling_ = (filling_ + 1) % parts_of_slot;
    Chunk& done = chunks_[filling_];
    if (!done.request.in_flight()) return;
    (void)text_of(done.request.wait(engine_.timeout_));
    if (kind_ == TransferKind::read) engine_.pool_.copy_batch(done.copies);
    done = {};
  }

  TransferEngine& engine_;
  const std::uint64_t at_;
  const std::uint64_t most_bytes_;  // of a chunk
  const int rank_;
  const TransferKind kind_;
  const std::string& peer_;
  std::array<Chunk, parts_of_slot> chunks_;
  std::size_t filling_ = 0;
};

TransferEngine::TransferEngine(const Store& store, const Url& name, Timeout timeout, std::uint32_t device)
    : store_(store), name_(name.address()), timeout_(timeout), device_(static_cast<int>(device)) {
  take_name();
  PoolOptions options;
  options.name = "trans";
  options.most_members = most_peers;
  options.host_bytes = slots_.size() * slot_bytes;
  pool_ = Pool::create(store_, options);
  pool_.on_call([this](int from, std::string_view request) { return serve(from, request); });
  pool_.on_change([this](const PoolChange& change) {
    if (change.joined) return;
    for (const std::size_t slot : late_slots(change.rank))
      set_slot(slot, slot_free);  // its requests have ended with it
    report_down(change.rank, change.version);
  });
  pool_.join(timeout_);
  announce();
  store_.set(key_of(name_), std::to_string(pool_.rank()));
}

TransferEngine::~TransferEngine() {
  try {
    store_.remove(key_of(name_));
    store_.with_prefix("id." + name_).release_rank();
  } catch (const Error&) {  // the store has ended
  }
  pool_.close();
}

/// The name is the only rank of a prefix, which the store frees when this connection ends.
void TransferEngine::take_name() {
  try {
    store_.with_prefix("id." + name_).acquire_rank(1);
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    throw Failure(SMEM_DUPLICATED_OBJECT, fmt::format("{} is the unique id of another peer", name_));
  }
}

int TransferEngine::find_peer(const std::string& peer, bool fresh) {
  const std::lock_guard lock(peers_mutex_);
  if (const auto known = peers_.find(peer); known != peers_.end() && !fresh) return known->second;
  const auto found = store_.try_get(key_of(peer));
  int rank = -1;
  if (found) std::from_chars(found->data(), found->data() + found->size(), rank);
  const std::vector<int> members = pool_.members();
  if (std::find(members.begin(), members.end(), rank) == members.end())
    throw Failure(SMEM_OBJECT_NOT_EXISTS, fmt::format("there is no peer {}", peer));
  return peers_[peer] = rank;
}

std::vector<std::size_t> TransferEngine::late_slots(int rank) {
  const std::lock_guard lock(slots_mutex_);
  std::vector<std::size_t> late;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i] == rank) late.push_back(i);
  return late;
}

void TransferEngine::set_slot(std::size_t index, int state) {
  {
    const std::lock_guard lock(slots_mutex_);
    slots_[index] = state;
  }
  slot_freed_.notify_one();
}

std::string TransferEngine::ask(int rank, const std::string& request) {
  const std::vector<std::size_t> late = late_slots(rank);
  const std::string reply = pool_.call(rank, request, timeout_);
  for (const std::size_t slot : late) set_slot(slot, slot_free);
  return text_of(reply);
}

void TransferEngine::on_peer_down(smem_trans_peer_down_callback_t callback, void* user_data) {
  const std::lock_guard lock(names_mutex_);
  peer_down_ = callback;
  peer_down_data_ = user_data;
}

void TransferEngine::announce() {
  std::uint64_t version = 0;
  {
    const std::lock_guard lock(names_mutex_);
    version = version_ = pool_.version();
  }
  for (const int rank : pool_.members()) {
    if (rank == pool_.rank()) continue;
    try {
      const std::string answer = ask(rank, encode(Request::name, name_, {}, version));
      std::uint64_t of_peer = 0;
      require(answer.size() > sizeof of_peer, "the answer is malformed");
      std::memcpy(&of_peer, answer.data(), sizeof of_peer);
      learn_name(rank, of_peer, answer.substr(sizeof of_peer));
    } catch (const std::exception& error) {
      log(LogLevel::info, fmt::format("the name of rank {} isn't known: {}", rank, error.what()));
    }
  }
}

void TransferEngine::learn_name(int rank, std::uint64_t version, std::string name) {
  const std::lock_guard lock(names_mutex_);
  names_[rank][version] = std::move(name);
}

void TransferEngine::report_down(int rank, std::uint64_t version) {
  std::string name;
  smem_trans_peer_down_callback_t callback = nullptr;
  void* user_data = nullptr;
  {
    const std::lock_guard lock(names_mutex_);
    // The next holder of the rank may have announced itself already, with a later version.
    auto& names = names_[rank];
    const auto end = names.lower_bound(version);
    if (end == names.begin()) return;
    name = std::prev(end)->second;
    names.erase(names.begin(), end);
    callback = peer_down_;
    user_data = peer_down_data_;
  }
  if (callback != nullptr) callback(name.c_str(), user_data);
}

std::string TransferEngine::serve(int from, std::string_view request) {
  std::int32_t code = SMEM_OK;
  std::string text;
  try {
    const Decoded asked = decode(request);
    if (asked.kind == Request::name) {
      learn_name(from, asked.at, asked.name);
      const std::lock_guard lock(names_mutex_);
      return reply_of(SMEM_OK, std::string(reinterpret_cast<const char*>(&version_), sizeof version_) + name_);
    }
    if (asked.name != name_) throw Failure(SMEM_OBJECT_NOT_EXISTS, fmt::format("this peer is {}", name_));
    memory_.with(asked.pieces, [&] {
      if (asked.kind == Request::check || asked.pieces.empty()) return;
      std::vector<PoolCopy> copies;
      std::uint64_t offset = asked.at;
      for (const OwnerPiece& piece : asked.pieces) {
        void* const staged = pool_.address(from, PoolPart::host, offset);
        std::byte* const owned = pointer(piece.address);
        if (asked.kind == Request::fetch)
          copies.push_back({owned, staged, piece.bytes});
        else
          copies.push_back({staged, owned, piece.bytes});
        offset += piece.bytes;
      }
      pool_.copy_batch(copies);
    });
  } catch (const Failure& failure) {
    code = failure.code;
    text = failure.what();
  } catch (const Error& error) {
    code = code_of(error);
    text = error.what();
  }
  return reply_of(code, text);
}

void TransferEngine::transfer(TransferKind kind, const std::string& peer, std::span<const TransferPiece> pieces) {
  require(!pieces.empty(), "the batch is empty");
  for (const TransferPiece& piece : pieces)
    require(piece.local != 0 && piece.remote != 0 && piece.bytes > 0, "an address is null, or a size is 0");
  const bool known = [&] {
    const std::lock_guard lock(peers_mutex_);
    return peers_.count(peer) != 0;
  }();
  try {
    return transfer_to(find_peer(peer, false), kind, peer, pieces);
  } catch (const Failure& failure) {
    if (!known || failure.code != SMEM_OBJECT_NOT_EXISTS) throw;
  } catch (const Error& error) {
    if (!known || error.code() != Code::peer_failed) throw;
  }
  transfer_to(find_peer(peer, true), kind, peer, pieces);  // the peer may have started again, with another rank
}

void TransferEngine::transfer_after(void* stream, TransferKind kind, const std::string& peer,
                                    std::span<const TransferPiece> pieces) {
  wait_for_stream(stream, device_);
  transfer(kind, peer, pieces);
}

void TransferEngine::transfer_to(int rank, TransferKind kind, const std::string& peer,
                                 std::span<const TransferPiece> pieces) {
  if (!late_slots(rank).empty()) ask(rank, encode(Request::check, peer, {}, 0));
  std::uint64_t total = 0;
  for (const TransferPiece& piece : pieces) total += piece.bytes;
  const bool is_one = pieces.size() <= most_pieces && total <= slot_bytes;
  if (!is_one) {  // of several requests the first one could pass
    for (std::size_t first = 0; first < pieces.size(); first += most_pieces) {
      std::vector<OwnerPiece> checked;
      for (const TransferPiece& piece : pieces.subspan(first, std::min(most_pieces, pieces.size() - first)))
        checked.push_back({piece.remote, piece.bytes});
      ask(rank, encode(Request::check, peer, checked, 0));
    }
  }
  Slot slot(*this);
  Chunks chunks(*this, slot, is_one, rank, kind, peer);
  try {
    for (const TransferPiece& piece : pieces) chunks.add(piece);
    chunks.finish();
  } catch (const Error& error) {
    if (error.code() == Code::timeout || !chunks.end()) slot.is_late(rank);
    throw;
  } catch (...) {  // the owner refused a request
    if (!chunks.end()) slot.is_late(rank);
    throw;
  }
}

}  // namespace hmc::memfabric
