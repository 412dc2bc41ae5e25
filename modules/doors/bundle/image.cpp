module;
#include "kernels.h"
// The contents of a bundle before it is written as C: the weights, and for each entry its tensors and its kernel calls
// with their arguments, word by word.
module lamina.bundle:image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

/// Base of an address: one of the caller's three regions.
enum class region : std::uint8_t { none, constants, variables, activations };
constexpr std::size_t alignment = 64;
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// 64 bits of an argument struct: a number, an address in a region, or the address of a function or table.
struct word {
  std::uint64_t value = 0;  // the number, or the offset
  region in = region::none;
  std::string_view symbol{};
  bool operator==(const word&) const = default;
};

/// A kernel call or a loop. The arguments of a loop are empty, or the address of its predicate and the value that it
/// must have.
struct call {
  std::string_view kernel{};  // empty: not executed
  std::vector<word> arguments{};
  std::int32_t loop = -1;  // index of the loop; -1: a kernel call
};
struct move {
  std::size_t call, at;
  std::int64_t stride;
};
struct loop {
  std::size_t first, count;  // range of calls
  std::int64_t iterations;
  std::vector<move> moves;  // words of call arguments that change after each iteration
};

/// A named range of bytes.
struct symbol {
  std::string name;        // name in the net
  std::string identifier;  // name in C
  tensor_type type;
  region in = region::none;
  std::size_t offset = 0;
  enum class role : std::uint8_t { input, output, state, constant } is = role::constant;
};
/// The operation that a range of calls computes, and the locations of its results.
struct operation {
  struct result {
    tensor_type type;
    region in;
    std::size_t offset, bytes;
  };
  std::string what;
  std::size_t first, count;  // range of calls
  std::vector<result> results{};
};

struct entry_image {
  std::string name;
  std::vector<symbol> tensors;  // inputs, then outputs, then assigned states
  std::vector<symbol> constants;
  std::vector<call> calls;  // by index; a run executes [first, end)
  std::vector<loop> loops;
  std::vector<operation> operations;
  std::size_t first = 0, commit = 0, end = 0;  // calls from `commit` on assign states and cannot fail
  std::size_t variable_bytes = 0, activation_bytes = 0, scratch = 0;  // scratch: offset in the activations
  std::size_t arena_bytes = 0, live_bytes = 0;
  std::vector<std::pair<std::size_t, std::string>> checks;  // offset of a counter in the activations, and the message
                                                            // for what it counts
  std::vector<std::size_t> given;  // offsets in the weights of values for `tensors`: self-test inputs and outputs,
                                   // initial states
  bool states() const { return !tensors.empty() && tensors.back().is == symbol::role::state; }
};

/// Header of the weights file, 64 bytes: magic, version, file size, checksum of the bytes after the header.
struct weights_head {
  char magic[8];
  std::uint32_t version, reserved;
  std::uint64_t size, checksum;
  std::uint64_t zeros[4];
};
constexpr std::uint32_t weights_version = 1;
constexpr std::string_view weights_magic = "LAMINABW";

struct image {
  std::string name;
  kernels::isa set;
  std::vector<entry_image> entries;
  std::vector<std::byte> weights;
  std::uint64_t checksum = 0;
  std::string target{};  // target triple; empty for this machine
  std::string set_name() const { return kernels::name_of(set); }
  bool is_arm() const { return set == kernels::isa::neon64; }
  bool cross_compiled() const { return !machine_has(static_cast<isa>(set)); }
};

/// Checksum of the weights: changing any single word changes it. High bits are mixed into low ones after each product,
/// so that changes of several high bits do not cancel out.
std::uint64_t checksum_of(view<const std::byte> bytes) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t w;
    std::memcpy(&w, bytes.data() + at, 8);
    sum = (sum ^ w) * 0x9e3779b97f4a7c15u;
    sum ^= sum >> 32;
  }
  return sum;
}

/// Plans the entries and lays out their memory. Errors: those of `write`.
image image_of(view<const program_entry> parts, const options& o);

constexpr std::string_view name_of(symbol::role r) {
  constexpr std::string_view names[] = {"input", "output", "state", "constant"};
  return names[static_cast<int>(r)];
}

/// Upper case, for macro names.
std::string upper(std::string s) {
  for (char& c : s)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return s;
}

/// Replaces each @word@ of a pattern by its meaning.
std::string filled(std::string_view pattern, std::initializer_list<std::pair<std::string_view, std::string>> values) {
  std::string s(pattern);
  for (const auto& [word, meaning] : values) {
    const std::string mark = "@" + std::string(word) + "@";
    for (std::size_t at = 0; (at = s.find(mark, at)) != s.npos; at += meaning.size())
      s.replace(at, mark.size(), meaning);
  }
  return s;
}
/// Makes text safe inside a C comment, which it must neither end nor nest. Control characters, line ends among them,
/// become spaces, since a backslash at the end of a line would continue the line.
std::string comment(std::string s) {
  for (char& c : s)
    if ((c >= 0 && c < ' ') || c == '\x7f') c = ' ';
  for (std::size_t at; (at = s.find("*/")) != s.npos;) s.replace(at, 2, "* ");
  for (std::size_t at; (at = s.find("/*")) != s.npos;) s.replace(at, 2, "/ ");
  return s;
}

bool is_keyword(std::string_view name);
/// Reason why a bundle or entry must not have this name, as the end of a message; empty if it may.
std::string_view why_reserved(const std::string& name);
/// Errors: value_error if two definitions of the bundle's files have the same name.
void check_names(const image& bundle, const options& o);

/// Contents of NAME.h, NAME.cppm and NAME.c.
std::string header_of(const image& bundle, const options& o);
std::string interface_of(const image& bundle, const options& o);
std::string source_of(const image& bundle, const options& o);

/// Compiles the source, links it with the kernels that it names and writes NAME.o to the directory; `globals` are the
/// symbols that stay visible. Errors: state_error, file_error.
void make_object(const std::string& directory, const image& bundle, const std::string& header,
                 const std::string& source, const std::vector<std::string>& globals, const options& o);

}  // namespace lamina::bundle
