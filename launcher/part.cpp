#include "launcher/part.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "launcher/report.hpp"

namespace hmc::launcher {

namespace {

constexpr std::uint32_t order_magic = 0x32504d48;  // "HMP2"
constexpr std::uint32_t longest_order = 64U << 20;

void write_texts(base::ByteWriter& out, const std::vector<std::string>& texts) {
  out.number(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& each : texts) out.text(each);
}

std::vector<std::string> read_texts(base::ByteReader& in) {
  std::vector<std::string> texts;
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) texts.push_back(in.text());
  return texts;
}

void read_all(int fd, std::byte* at, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw LaunchError(exit_own_failure, "--part: the hmcrun that started it has ended");
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

}  // namespace

base::Bytes PartOrder::encode() const {
  base::ByteWriter out;
  out.number(order_magic);
  out.text(host).text(store).text(secret).text(folder);
  write_texts(out, variables);
  out.number(static_cast<std::uint32_t>(options.programs.size()));
  for (const Program& program : options.programs) {
    out.number(static_cast<std::int32_t>(program.ranks)).text(program.folder);
    write_texts(out, program.command);
    write_texts(out, program.env);
  }
  out.number(static_cast<std::int32_t>(options.size())).number(static_cast<std::uint32_t>(options.numbers.size()));
  for (const int number : options.numbers) out.number(static_cast<std::int32_t>(number));
  out.number(static_cast<std::uint8_t>(options.tag_output)).text(options.output_dir);
  out.number(static_cast<std::uint8_t>(options.bind_to)).number(static_cast<std::uint8_t>(options.map_by));
  out.number(static_cast<std::uint8_t>(options.report_bindings));
  out.number(static_cast<std::uint8_t>(options.keep_going)).number(static_cast<std::int32_t>(options.respawns));
  const base::Bytes body = out.take();
  base::ByteWriter framed;
  framed.blob(body);
  return framed.take();
}

std::optional<PartOrder> PartOrder::decode(base::ByteView bytes) {
  base::ByteReader in(bytes);
  PartOrder order;
  if (in.number<std::uint32_t>() != order_magic) return std::nullopt;
  order.host = in.text();
  order.store = in.text();
  order.secret = in.text();
  order.folder = in.text();
  order.variables = read_texts(in);
  Options& options = order.options;
  const auto programs = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < programs && in.ok(); ++i) {
    Program& program = options.programs.emplace_back();
    program.ranks = in.number<std::int32_t>();
    program.folder = in.text();
    program.command = read_texts(in);
    program.env = read_texts(in);
  }
  options.job_size = in.number<std::int32_t>();
  const auto count = in.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) options.numbers.push_back(in.number<std::int32_t>());
  options.tag_output = in.number<std::uint8_t>() != 0;
  options.output_dir = in.text();
  const auto bind_to = in.number<std::uint8_t>(), map_by = in.number<std::uint8_t>();
  options.bind_to = static_cast<BindTo>(bind_to);
  options.map_by = static_cast<MapBy>(map_by);
  options.report_bindings = in.number<std::uint8_t>() != 0;
  options.keep_going = in.number<std::uint8_t>() != 0;
  options.respawns = in.number<std::int32_t>();
  options.ranks = static_cast<int>(options.numbers.size());
  if (!in.complete() || options.numbers.empty() || options.programs.empty() || order.host.empty()) return std::nullopt;
  for (const Program& program : options.programs)
    if (program.command.empty() || program.ranks < 0 || program.ranks > most_ranks) return std::nullopt;
  if (bind_to > static_cast<int>(BindTo::numa) || map_by > static_cast<int>(MapBy::numa)) return std::nullopt;
  if (options.job_size < options.ranks || options.job_size > most_ranks || options.respawns < 0) return std::nullopt;
  int last = -1;
  for (const int number : options.numbers) {
    if (number <= last || number >= options.job_size) return std::nullopt;
    last = number;
  }
  return order;
}

PartOrder PartOrder::read(int fd) {
  base::Bytes length(sizeof(std::uint32_t));
  read_all(fd, length.data(), length.size());
  const auto bytes = base::ByteReader(length).number<std::uint32_t>();
  if (bytes > longest_order)
    throw LaunchError(exit_own_failure, "--part: standard input isn't from hmcrun, which starts parts itself");
  base::Bytes body(bytes);
  read_all(fd, body.data(), body.size());
  auto order = decode(body);
  if (!order) throw LaunchError(exit_own_failure, "--part: the hmcrun that started it has another version");
  return *std::move(order);
}

}  // namespace hmc::launcher
