// NumPy's format for one array: a magic number, a version, a header that is a Python dict, the elements.
module lamina:io.npy.impl;
import :core;
import :dtype;
import :io;
import :io.file.impl;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {

constexpr std::string_view npy_magic = "\x93NUMPY";
// NumPy's default limit is 10,000.
constexpr std::size_t largest_npy_header = std::size_t(1) << 16;
// NumPy lacks bfloat16; ml_dtypes, which adds it, writes it as an untyped two-byte element. One-byte types that NumPy
// lacks are written as the integer of their bits; no file is read as one of them.
constexpr std::string_view npy_names[] = {"f4", "f8", "f2", "V2", "i1", "i2", "i4", "i8", "u1", "b1", "u2", "u4",
                                          "u8", "u1", "u1", "u1", "u1", "u1", "u1", "i1", "u1", "i1", "u1"};
static_assert(std::size(npy_names) == number_type_count);
constexpr int npy_known = static_cast<int>(dtype::uint64) + 1;

/// Contents of a header.
struct npy_header {
  tensor_type type;
  bool fortran = false, swapped = false;
  std::size_t data = 0;  // offset of the elements
};

/// Reads the dict of a header: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }`.
class npy_header_reader {
 public:
  npy_header_reader(std::string_view where, std::string_view header) : where_(where), rest_(header) {}

  npy_header read() {
    npy_header h;
    bool descr = false, order = false, extents = false;
    expect('{');
    while (!take('}')) {
      const auto key = string();
      expect(':');
      bool* seen = key == "descr" ? &descr : key == "fortran_order" ? &order : key == "shape" ? &extents : nullptr;
      if (!seen) fail("header: expected the keys descr, fortran_order and shape; got `", printable(key), "`");
      if (std::exchange(*seen, true)) fail("header: the key ", key, " is given twice");
      if (key == "descr") element(h);
      else if (key == "fortran_order") h.fortran = boolean();
      else h.type.dims = dims();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) fail("header: expected nothing after the dict; got `", printable(rest_, 20), "`");
    if (!descr || !order || !extents)
      fail("header: the key ", !descr ? "descr" : !order ? "fortran_order" : "shape", " is missing");
    return h;
  }
  template <class... T> [[noreturn]] void fail(const T&... parts) const {
    text t;
    ((t << parts), ...);
    file_failure(where_, t);
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail("header: expected `", c, "` before `", printable(rest_, 20), "`");
  }
  std::string_view string() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    const auto end = quote == '\'' || quote == '"' ? rest_.find(quote, 1) : rest_.npos;
    if (end == rest_.npos) fail("header: expected a string before `", printable(rest_, 20), "`");
    const auto s = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return s;
  }
  bool boolean() {
    skip_space();
    for (std::string_view word : {"True", "False"})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return word == "True";
      }
    fail("fortran_order: expected True or False; got `", printable(rest_, 20), "`");
  }
  void element(npy_header& h) {
    skip_space();
    if (rest_.starts_with('[')) unknown("a structured type");
    const auto descr = string();
    for (int i = 0; i < npy_known; ++i)
      if (descr.size() == 3 && std::string_view("<>=|").find(descr[0]) != std::string_view::npos &&
          descr.substr(1) == npy_names[i]) {
        h.type.element = static_cast<dtype>(i);
        constexpr bool little = std::endian::native == std::endian::little;
        h.swapped = size_of(h.type.element) > 1 && descr[0] == (little ? '>' : '<');
        return;
      }
    unknown(descr);
  }
  [[noreturn]] void unknown(std::string_view descr) const {
    text t;
    t << where_ << ": the element type `" << printable(descr, 40) << "` is not supported; expected one of";
    for (int i = 0; i < npy_known; ++i) t << ' ' << npy_names[i];
    raise(error_kind::unsupported, t);
  }
  shape dims() {
    shape s;
    expect('(');
    while (!take(')')) {
      skip_space();
      std::int64_t n = 0;
      std::size_t digits = 0;
      while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
        if (__builtin_mul_overflow(n, std::int64_t(10), &n) ||
            __builtin_add_overflow(n, std::int64_t(rest_[digits] - '0'), &n))
          fail("shape has an extent above 2^63 - 1");
        ++digits;
      }
      if (digits == 0) fail("shape: expected a whole number before `", printable(rest_, 20), "`");
      rest_.remove_prefix(digits);
      if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // a Python 2 long
      if (s.rank == max_rank) fail("shape has more than ", max_rank, " extents");
      s.push_back(n);
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return s;
  }
  std::string_view where_, rest_;
};

/// Copies elements from Fortran order (first axis contiguous) to row-major order.
void from_fortran(const std::byte* in, std::byte* out, const shape& s, std::size_t size) {
  std::int64_t stride[max_rank]{}, at[max_rank]{}, step = 1, from = 0;
  for (int i = 0; i < s.rank; ++i) {
    stride[i] = step;
    step *= s.at(i);
  }
  for (std::int64_t n = 0; n < step; ++n) {
    std::memcpy(out + static_cast<std::size_t>(n) * size, in + static_cast<std::size_t>(from) * size, size);
    for (int i = s.rank; i-- > 0;) {
      from += stride[i];
      if (++at[i] < s.at(i)) break;
      from -= stride[i] * s.at(i);
      at[i] = 0;
    }
  }
}

npy_header npy_header_of(view<const std::byte> bytes, std::string_view where) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const npy_header_reader header(where, {});
  auto byte = [&](std::size_t i) { return static_cast<std::size_t>(static_cast<unsigned char>(all[i])); };
  if (all.size() < 10)
    header.fail("header: expected at least 10 bytes of magic number, version and length; got ", all.size());
  if (!all.starts_with(npy_magic)) header.fail("magic number: expected \\x93NUMPY (not an npy file?)");
  const auto major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    text t;
    raise(error_kind::unsupported,
          t << where << ": version " << major << '.' << minor << " of npy; 1.0, 2.0 and 3.0 are supported");
  }
  const std::size_t begin = major == 1 ? 10 : 12;
  if (all.size() < begin) header.fail("the file ends inside the length of its header (is it truncated?)");
  const std::size_t length = byte(8) | byte(9) << 8 | (major == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > largest_npy_header)
    header.fail("header length: expected at most ", largest_npy_header, "; got ", length);
  if (length > all.size() - begin)
    header.fail("header: expected ", length, " bytes; got ", all.size() - begin, " (is it truncated?)");
  npy_header h = npy_header_reader(where, all.substr(begin, length)).read();
  h.data = begin + length;
  std::int64_t extents[max_rank]{};
  for (int i = 0; i < h.type.dims.rank; ++i) extents[i] = h.type.dims.at(i);
  const auto size = checked_bytes({extents, static_cast<std::size_t>(h.type.dims.rank)}, size_of(h.type.element));
  if (size < 0) header.fail("shape ", h.type.dims, " has more elements than memory can hold");
  if (const auto there = all.size() - h.data; static_cast<std::size_t>(size) != there)
    header.fail("elements: expected ", size, " bytes for ", h.type, "; got ", there,
                static_cast<std::size_t>(size) > there ? " (is it truncated?)" : "");
  return h;
}

/// Parses the array of a file in memory; `where` begins the messages.
any_tensor npy_array(view<const std::byte> bytes, std::string_view where) {
  const npy_header h = npy_header_of(bytes, where);
  const std::byte* from = bytes.data() + h.data;
  const auto size = size_of(h.type.element);
  any_tensor made(h.type);
  std::byte* out = made.mutable_data();
  if (h.fortran && h.type.dims.rank > 1) from_fortran(from, out, h.type.dims, size);
  else if (made.bytes()) std::memcpy(out, from, made.bytes());
  if (h.swapped)
    for (std::size_t i = 0; i < made.bytes(); i += size) std::reverse(out + i, out + i + size);
  if (h.type.element == dtype::boolean)
    for (std::size_t i = 0; i < made.bytes(); ++i)
      if (static_cast<unsigned>(out[i]) > 1) {
        text t;
        t << "bool: expected bytes 0 or 1; element " << i << " is " << static_cast<unsigned>(out[i]);
        file_failure(where, t);
      }
  return made;
}

/// Everything before the elements: magic, version and header.
std::string npy_prefix(const tensor_type& t) {
  const char order = size_of(t.element) == 1 ? '|' : std::endian::native == std::endian::little ? '<' : '>';
  text dict;
  dict << "{'descr': '" << order << npy_names[static_cast<int>(t.element)] << "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < t.dims.rank; ++i) dict << (i ? ", " : "") << t.dims.at(i);
  dict << (t.dims.rank == 1 ? ",), }" : "), }");
  std::string header = dict.string();
  header.append(63 - (10 + header.size()) % 64, ' ');  // aligns the elements to 64 bytes
  header += '\n';
  std::string all(npy_magic);
  all += {'\1', '\0', static_cast<char>(header.size() & 255), static_cast<char>(header.size() >> 8)};
  return all + header;
}

}  // namespace detail

any_tensor read_npy(const std::string& path) {
  const detail::mapped_file file(path);
  return detail::npy_array({file.data, file.size}, path);
}

void write_npy(const std::string& path, const any_tensor& v) {
  if (v.element() == dtype::string)
    detail::raise(error_kind::unsupported, path + ": strings cannot be written: npy has no variable-length strings");
  write_file_atomically(path, [&](writer& out) {
    out.write(detail::npy_prefix(v.type()));
    out.write(v.data(), v.bytes());
  });
}

}  // namespace lamina
