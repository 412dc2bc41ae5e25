module;
#include "kernels.h"
// What a bundle holds before it is written as C: the weights, and for each entry its tensors and its calls of kernels
// with their arguments word by word.
module lamina.bundle:image;
import :write;
import lamina;
import lamina.std;

namespace lamina::bundle {

/// Where an address begins: at one of the caller's three regions.
enum class region : std::uint8_t { none, constants, variables, activations };
constexpr std::size_t alignment = 64;
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// 64 bits of an argument struct: a number, an address in a region, or that of a function or table.
struct word {
  std::uint64_t value = 0;  // the number, or the offset
  region in = region::none;
  std::string_view symbol{};
  bool operator==(const word&) const = default;
};

/// A kernel call, or the iterations of a loop, whose arguments are none, or the address of a predicate and what it must be.
struct call {
  std::string_view kernel{};  // empty: not part of a run
  std::vector<word> arguments{};
  std::int32_t loop = -1;  // its number, where this is one
};
struct move {
  std::size_t call, at;
  std::int64_t stride;
};
struct loop {
  std::size_t first, count;  // its calls
  std::int64_t iterations;
  std::vector<move> moves;  // after each iteration a word of a call's arguments changes
};

/// Bytes that have a name.
struct symbol {
  std::string name;        // as the net has it
  std::string identifier;  // as C has it
  tensor_type type;
  region in = region::none;
  std::size_t offset = 0;
  enum class role : std::uint8_t { input, output, state, constant } is = role::constant;
};
/// What a run of calls computes, and where it leaves its results.
struct operation {
  struct result {
    tensor_type type;
    region in;
    std::size_t offset, bytes;
  };
  std::string what;
  std::size_t first, count;  // its calls
  std::vector<result> results{};
};

struct entry_image {
  std::string name;
  std::vector<symbol> tensors;  // inputs, then outputs, then states that a run assigns
  std::vector<symbol> constants;
  std::vector<call> calls;  // by number; a run begins at `first` and ends before `end`
  std::vector<loop> loops;
  std::vector<operation> operations;
  std::size_t first = 0, commit = 0, end = 0;  // from `commit` on states are assigned, and nothing can fail
  std::size_t variable_bytes = 0, activation_bytes = 0, scratch = 0;  // scratch: its offset in the activations
  std::size_t arena_bytes = 0, live_bytes = 0;
  std::vector<std::pair<std::size_t, std::string>> checks;  // counters in the activations, and what they count
  std::vector<std::size_t> given;  // where the weights hold values of the tensors: the self-test's, states' first ones
  bool states() const { return !tensors.empty() && tensors.back().is == symbol::role::state; }
};

/// The head of the weights file, in 64 bytes: magic, version, size of the file, checksum of what follows the head.
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
  std::string target{};  // the processor and system, where it is not one like this
  std::string set_name() const { return kernels::name_of(set); }
  bool foreign() const { return set == kernels::isa::neon64; }
};

/// The checksum of the weights: any change of one word changes it. High bits come down after each product, so that
/// changes of several high bits do not cancel each other.
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

/// Plans the parts and lays out their memory. Errors: as those of `write`.
image image_of(view<const program_entry> parts, const options& o);

constexpr std::string_view name_of(symbol::role r) {
  constexpr std::string_view names[] = {"input", "output", "state", "constant"};
  return names[static_cast<int>(r)];
}

/// In capitals, as macros are named.
std::string upper(std::string s) {
  for (char& c : s)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return s;
}

/// A pattern in which each @word@ stands for something else.
std::string filled(std::string_view pattern, std::initializer_list<std::pair<std::string_view, std::string>> words) {
  std::string s(pattern);
  for (const auto& [word, meaning] : words) {
    const std::string mark = "@" + std::string(word) + "@";
    for (std::size_t at = 0; (at = s.find(mark, at)) != s.npos; at += meaning.size())
      s.replace(at, mark.size(), meaning);
  }
  return s;
}
/// What stands in a comment of C must not end it, nor begin another one. A line that ends with a backslash goes on in
/// the next one, so that neither may hold an end of line.
std::string comment(std::string s) {
  for (char& c : s)
    if ((c >= 0 && c < ' ') || c == '\x7f') c = ' ';
  for (std::size_t at; (at = s.find("*/")) != s.npos;) s.replace(at, 2, "* ");
  for (std::size_t at; (at = s.find("/*")) != s.npos;) s.replace(at, 2, "/ ");
  return s;
}

bool is_keyword(std::string_view name);
/// Why neither a bundle nor an entry can have a name, as the end of a sentence; nothing where it can.
std::string_view why_reserved(const std::string& name);
/// Errors: value_error where two of the names that the bundle's files define are one.
void check_names(const image& bundle, const options& o);

/// NAME.h, NAME.cppm and NAME.c.
std::string header_of(const image& bundle, const options& o);
std::string interface_of(const image& bundle, const options& o);
std::string source_of(const image& bundle, const options& o);

/// Compiles the source, joins it with the kernels that it names and puts NAME.o into the directory; `globals` are the
/// symbols that stay visible. Errors: state_error, file_error.
void make_object(const std::string& directory, const image& bundle, const std::string& header,
                 const std::string& source, const std::vector<std::string>& globals, const options& o);

}  // namespace lamina::bundle
