module;
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
module lamina.onnx:source.impl;
import :message;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

[[noreturn]] void system_failure(const std::string& path, std::string_view what, int number) {
  text t;
  detail::raise(error_kind::file,
                t << printable(path, 1024) << ": " << what << ": " << std::generic_category().message(number));
}

struct descriptor {
  int number;
  explicit descriptor(const std::string& path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number < 0) system_failure(path, "cannot be opened", errno);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  ~descriptor() { ::close(number); }
  struct stat status(const std::string& path) const {
    struct stat s{};
    if (::fstat(number, &s) != 0) system_failure(path, "cannot be read", errno);
    if (!S_ISREG(s.st_mode)) {
      text t;
      detail::raise(error_kind::file, t << printable(path, 1024) << ": is not a regular file");
    }
    return s;
  }
};

// In the order of `element_code`. `bits` is the size of an element in files, where some types are packed.
struct element_entry {
  std::string_view name;
  std::optional<dtype> element;
  int bits;
};
// clang-format off
constexpr element_entry entries[] = {
    {"undefined", {}, 0},
    {"float32", dtype::float32, 32},
    {"uint8", dtype::uint8, 8},
    {"int8", dtype::int8, 8},
    {"uint16", dtype::uint16, 16},
    {"int16", dtype::int16, 16},
    {"int32", dtype::int32, 32},
    {"int64", dtype::int64, 64},
    {"string", dtype::string, 0},
    {"bool", dtype::boolean, 8},
    {"float16", dtype::float16, 16},
    {"float64", dtype::float64, 64},
    {"uint32", dtype::uint32, 32},
    {"uint64", dtype::uint64, 64},
    {"complex64", {}, 64},
    {"complex128", {}, 128},
    {"bfloat16", dtype::bfloat16, 16},
    {"float8e4m3fn", dtype::float8_e4m3fn, 8},
    {"float8e4m3fnuz", dtype::float8_e4m3fnuz, 8},
    {"float8e5m2", dtype::float8_e5m2, 8},
    {"float8e5m2fnuz", dtype::float8_e5m2fnuz, 8},
    {"uint4", dtype::uint4, 4},
    {"int4", dtype::int4, 4},
    {"float4e2m1", dtype::float4_e2m1, 4},
    {"float8e8m0", dtype::float8_e8m0fnu, 8},
    {"uint2", dtype::uint2, 2},
    {"int2", dtype::int2, 2},
};
// clang-format on
const element_entry& entry_of(element_code code) {
  const auto i = static_cast<std::size_t>(code);
  return i < std::size(entries) ? entries[i] : entries[0];
}

class decoder {
 public:
  decoder(const tensor_message& t, const source& from, std::string_view what) : t_(t), from_(from), what_(what) {}

  any_tensor run() {
    const auto element = element_of(t_.element);
    if (!element) {
      text why;
      detail::raise(error_kind::unsupported, why << printable(from_.file, 1024) << ": " << what_
                                                 << " has the unsupported element type " << name_of(t_.element));
    }
    const shape dims = extents();
    const std::int64_t count = dims.size();
    if (t_.is_external) {
      try {
        return external({*element, dims}, count);
      } catch (const file_error& e) {  // messages about the data file do not name this file
        const std::string_view reason = e.what();
        if (reason.starts_with(printable(from_.file, 1024) + ": ")) throw;
        fail("its external data: ", reason);
      }
    }
    if (t_.has_raw) {
      if (bits() == 0) fail("strings are not stored as raw data");
      check_bytes(t_.raw.size(), count);
      take(count);
      any_tensor made = unwritten({*element, dims});
      unpack(t_.raw, made, count);
      return made;
    }
    return typed({*element, dims}, count);
  }

 private:
  template <class... T> [[noreturn]] void fail(const T&... parts) const {
    text t;
    t << what_ << ": ";
    ((t << parts), ...);
    from_.fail(t);
  }
  int bits() const { return entry_of(t_.element).bits; }

  // The declared element count is not trusted: the data must match it.
  shape extents() const {
    if (t_.dims.size() > static_cast<std::size_t>(max_rank)) {
      text t;
      detail::raise(error_kind::unsupported, t << printable(from_.file, 1024) << ": " << what_ << " has rank "
                                               << t_.dims.size() << "; the limit is " << max_rank);
    }
    shape s;
    std::int64_t largest = 64;
    for (auto n : t_.dims) {
      if (n < 0) fail("extent ", n, " is negative");
      if (n > 0 && __builtin_mul_overflow(largest, n, &largest)) fail("its extents multiply to more than 63 bits");
      s.push_back(n);
    }
    return s;
  }
  // An uninitialized tensor; the caller writes every element.
  static any_tensor unwritten(const tensor_type& type) { return {storage(type.bytes()), type}; }
  std::size_t bytes_of(std::int64_t count) const {
    return (static_cast<std::size_t>(count) * static_cast<std::size_t>(bits()) + 7) / 8;
  }
  void take(std::int64_t count) const {
    if (!from_.account->take(bytes_of(count)))
      fail("the tensors take far more bytes than the files have: many share the same bytes");
  }
  void check_bytes(std::size_t given, std::int64_t count) const {
    const auto expected = bytes_of(count);
    if (given == expected) return;
    fail("expected ", expected, " bytes for ", count, " elements of ", name_of(t_.element), "; got ", given);
  }
  void check_count(std::size_t given, std::size_t expected) const {
    if (given != expected) fail("it has ", given, " numbers; expected ", expected);
  }

  // Converts little-endian bytes of a file to elements.
  void unpack(std::string_view bytes, any_tensor& to, std::int64_t count) const {
    std::byte* out = to.mutable_data();
    if (bits() >= 8) {
      if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
      if (t_.element == element_code::boolean)  // nonzero is true
        for (std::int64_t i = 0; i < count; ++i) out[i] = std::byte(out[i] != std::byte(0));
      return;
    }
    unpack_bits(bytes, out, count);
  }
  // Elements of 4 or 2 bits; the first is in the lowest bits of a byte.
  void unpack_bits(std::string_view bytes, std::byte* out, std::int64_t count) const {
    const int n = bits(), each = 8 / n;
    const bool is_signed = t_.element == element_code::int4 || t_.element == element_code::int2;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(i / each)]);
      int v = byte >> (n * static_cast<int>(i % each)) & ((1 << n) - 1);
      if (is_signed && v >> (n - 1)) v -= 1 << n;
      out[i] = static_cast<std::byte>(v);
    }
  }

  any_tensor typed(const tensor_type& type, std::int64_t count) const {
    any_tensor made;
    const auto n = static_cast<std::size_t>(count);
    const auto fill = [&]<class T>(const auto& numbers, std::type_identity<T>) {
      check_count(numbers.size(), n);
      take(count);
      made = unwritten(type);
      auto* out = reinterpret_cast<T*>(made.mutable_data());
      for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<T>(numbers[i]);
    };
    switch (t_.element) {
      case element_code::float32: fill(t_.floats, std::type_identity<float>()); break;
      case element_code::float64: fill(t_.doubles, std::type_identity<double>()); break;
      case element_code::int64: fill(t_.longs, std::type_identity<std::int64_t>()); break;
      case element_code::uint32: fill(t_.unsigned_longs, std::type_identity<std::uint32_t>()); break;
      case element_code::uint64: fill(t_.unsigned_longs, std::type_identity<std::uint64_t>()); break;
      case element_code::int32: fill(t_.integers, std::type_identity<std::int32_t>()); break;
      case element_code::boolean: fill(t_.integers, std::type_identity<bool>()); break;
      case element_code::string: return texts(type, n);
      default:
        if (bits() == 16) fill(t_.integers, std::type_identity<std::uint16_t>());
        else if (bits() == 8) fill(t_.integers, std::type_identity<std::uint8_t>());
        else return packed_integers(type, count);
    }
    return made;
  }
  // Elements of 4 or 2 bits, packed into bytes that are stored in int32_data.
  any_tensor packed_integers(const tensor_type& type, std::int64_t count) const {
    const auto each = static_cast<std::size_t>(8 / bits());
    check_count(t_.integers.size(), (static_cast<std::size_t>(count) + each - 1) / each);
    take(count);
    std::string bytes;
    for (auto v : t_.integers) bytes.push_back(static_cast<char>(v));
    any_tensor made = unwritten(type);
    unpack_bits(bytes, made.mutable_data(), count);
    return made;
  }
  any_tensor texts(const tensor_type& type, std::size_t n) const {
    check_count(t_.strings.size(), n);
    std::size_t chars = 0;
    for (auto s : t_.strings) chars += s.size();
    if (!from_.account->take(chars + n * sizeof(std::string)))
      fail("the strings of the model take far more bytes than its files have");
    std::vector<std::string> all(t_.strings.begin(), t_.strings.end());
    return any_tensor::of_strings(type.dims, view<const std::string>(all));
  }

  // ---- data in another file ----

  std::int64_t number_at(std::string_view key, std::string_view value) const {
    std::int64_t n = 0;
    const char *const first = value.data(), *const end = first + value.size();
    const auto [at, error] = std::from_chars(first, end, n);
    if (error != std::errc() || at != end || n < 0)
      fail("`", key, "` of its external data is `", printable(value), "`; expected a number of bytes");
    return n;
  }
  // The path of external data, which must lie in the model's folder or below, also after symbolic links are resolved.
  std::string path_of(std::string_view location) const {
    namespace fs = std::filesystem;
    if (location.empty()) fail("its external data have no `location`");
    if (from_.folder.empty()) fail("it has external data, but a model in memory has no folder");
    const fs::path given = fs::path(std::string(location));
    bool inside = given.is_relative() && location.find('\0') == location.npos;
    for (const auto& part : given) inside = inside && part != "..";
    std::error_code error;
    const fs::path folder = fs::canonical(from_.folder, error), file = folder / given;
    if (inside && !error && fs::exists(file, error)) {
      const fs::path real = fs::canonical(file, error), relative = real.lexically_relative(folder);
      inside = !error && !relative.empty() && *relative.begin() != "..";
    }
    if (!inside) fail("its external data `", printable(location), "` is outside the model's folder");
    return file.string();
  }
  any_tensor external(const tensor_type& type, std::int64_t count) const {
    std::string_view location;
    std::int64_t offset = 0;
    std::optional<std::int64_t> length;
    for (const auto& [key, value] : t_.external) {
      if (key == "location") location = value;
      else if (key == "offset") offset = number_at(key, value);
      else if (key == "length") length = number_at(key, value);
    }
    const auto expected = bytes_of(count);
    if (length) check_bytes(static_cast<std::size_t>(*length), count);
    if (bits() == 0) fail("strings are not stored as external data");
    const std::string path = path_of(location);
    const descriptor file(path);
    const auto status = file.status(path);
    const auto size = static_cast<std::size_t>(status.st_size);
    if (static_cast<std::size_t>(offset) > size || expected > size - static_cast<std::size_t>(offset))
      fail("external data: expected ", expected, " bytes of `", printable(location), "` from byte ", offset,
           "; got a file of ", size, " bytes");
    from_.account->add(size, status.st_dev, status.st_ino);
    take(count);
    any_tensor made = unwritten(type);
    if (bits() < 8) {
      std::string bytes(expected, '\0');
      read(file, path, bytes.data(), expected, offset);
      unpack_bits(bytes, made.mutable_data(), count);
    } else read(file, path, made.mutable_data(), expected, offset);
    return made;
  }
  void read(const descriptor& file, const std::string& path, void* to, std::size_t bytes, std::int64_t at) const {
    std::size_t done = 0;
    while (done < bytes) {
      const auto n =
          ::pread(file.number, static_cast<char*>(to) + done, bytes - done, at + static_cast<std::int64_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) system_failure(path, "cannot be read", errno);
      if (n == 0) fail("its file of external data became shorter while it was read");
      done += static_cast<std::size_t>(n);
    }
  }

  const tensor_message& t_;
  const source& from_;
  std::string_view what_;
};

}  // namespace

file_bytes::file_bytes(const std::string& path) {
  const descriptor file(path);
  size_ = static_cast<std::size_t>(file.status(path).st_size);
  if (size_ == 0) return;
  void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  if (p == MAP_FAILED) system_failure(path, "cannot be mapped", errno);
  data_ = static_cast<const char*>(p);
}
file_bytes::~file_bytes() {
  if (data_) ::munmap(const_cast<char*>(data_), size_);
}

void source::fail(const text& why) const {
  text t;
  detail::raise(error_kind::file, t << printable(file, 1024) << ": " << why);
}

std::optional<dtype> element_of(element_code code) { return entry_of(code).element; }
std::string_view name_of(element_code code) { return entry_of(code).name; }
element_code code_of(dtype element) {
  for (std::size_t i = 0; i < std::size(entries); ++i)
    if (entries[i].element == element) return static_cast<element_code>(i);
  return element_code::none;
}

any_tensor elements_of(const tensor_message& t, const source& from, std::string_view what) {
  return decoder(t, from, what).run();
}

any_tensor elements_of(const sparse_tensor_message& t, const source& from, std::string_view what) {
  const any_tensor values = elements_of(t.values, from, what), indices = elements_of(t.indices, from, what);
  const auto fail = [&](std::string_view why) {
    text message;
    from.fail(message << what << ": " << why);
  };
  if (values.element() == dtype::string) fail("a sparse tensor of strings is not supported");
  tensor_type type{values.element(), {}};
  if (t.dims.empty() || t.dims.size() > static_cast<std::size_t>(max_rank))
    fail("a sparse tensor must have rank 1 to 8");
  std::int64_t bytes = 8;
  for (auto n : t.dims) {
    if (n < 1 || __builtin_mul_overflow(bytes, n, &bytes) || bytes > (std::int64_t(1) << 28))
      fail("a sparse tensor has an extent below 1, or more than 2^28 bytes when dense");
    type.dims.push_back(n);
  }
  const auto count = values.shape().size();
  const bool flat = indices.shape() == shape{count};
  if (indices.element() != dtype::int64 || (!flat && indices.shape() != shape{count, type.dims.rank}))
    fail("expected int64 indices of a sparse tensor, one row for each value");
  if (!from.account->take(static_cast<std::size_t>(type.bytes())))
    fail("the sparse tensors take too many bytes when dense");
  any_tensor made(type);
  const auto at = indices.elements<std::int64_t>();
  const std::size_t size = size_of(type.element), width = flat ? 1 : static_cast<std::size_t>(type.dims.rank);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < width; ++k) {
      const auto p = at[i * width + k], extent = flat ? type.dims.size() : type.dims.at(static_cast<int>(k));
      if (p < 0 || p >= extent) fail("an index of a sparse tensor is out of range");
      offset = offset * extent + p;
    }
    std::memcpy(made.mutable_data() + static_cast<std::size_t>(offset) * size, values.data() + i * size, size);
  }
  return made;
}

}  // namespace lamina::onnx
