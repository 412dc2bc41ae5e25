module;
#include <zlib.h>
// NumPy's format for several arrays: a zip archive of npy files, stored or deflated.
module lamina:io.npz.impl;
import :core;
import :dtype;
import :io;
import :io.file.impl;
import :io.npy.impl;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

constexpr std::uint32_t local_mark = 0x04034b50, entry_mark = 0x02014b50, end_mark = 0x06054b50,
                        wide_end_mark = 0x06064b50, wide_place_mark = 0x07064b50;
constexpr std::uint64_t all_ones = 0xffffffff;
// Deflate expands one byte to at most 1032.
constexpr std::uint64_t largest_ratio = 1032;

std::uint32_t checksum(const std::byte* data, std::size_t size) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(data), size));
}

/// One file of an archive, from the directory at its end.
struct archive_entry {
  std::string name;
  std::uint64_t method = 0, crc = 0, packed = 0, size = 0, place = 0;
};

class archive {
 public:
  explicit archive(const std::string& path) : path_(path), file_(path) {}

  std::vector<named_tensor> arrays() {
    std::vector<named_tensor> made;
    std::set<std::string> names;
    std::uint64_t taken = 0;
    for (const auto& e : directory()) {
      if (!e.name.ends_with(".npy")) fail(e, "is not an npy file");
      // Rejects overlapping entries, which would let a small file unpack to any size.
      if (e.packed > file_.size - taken)
        fail(e, "takes ", e.packed, " bytes; expected at most ", file_.size - taken,
             ", since earlier arrays take the rest of the file");
      taken += e.packed;
      if (!names.insert(e.name).second) fail(e, "occurs twice");
      made.push_back({e.name.substr(0, e.name.size() - 4), array(e)});
    }
    return made;
  }

 private:
  template <class... T> [[noreturn]] void fail_whole(const T&... parts) const {
    text t;
    ((t << parts), ...);
    detail::file_failure(path_, t);
  }
  template <class... T> [[noreturn]] void fail(const archive_entry& e, const T&... parts) const {
    fail_whole("array `", printable(e.name), "` ", parts...);
  }
  std::uint64_t number(std::uint64_t at, int bytes) const {
    if (at > file_.size || file_.size - at < static_cast<std::uint64_t>(bytes))
      fail_whole("the archive's directory points beyond the file (is it truncated?)");
    std::uint64_t n = 0;
    for (int i = bytes; i-- > 0;)
      n = n << 8 | static_cast<std::uint64_t>(file_.data[at + static_cast<std::uint64_t>(i)]);
    return n;
  }

  std::vector<archive_entry> directory() const {
    if (file_.size < 22) fail_whole("expected a zip archive of at least 22 bytes; got ", file_.size);
    // The end record, before a comment of at most 65535 bytes.
    std::uint64_t end = file_.size - 22;
    const std::uint64_t first = file_.size > 22 + 65535 ? file_.size - 22 - 65535 : 0;
    while (number(end, 4) != end_mark || end + 22 + number(end + 20, 2) != file_.size)
      if (end-- == first) fail_whole("no end-of-archive record found (not an npz file, or truncated?)");
    std::uint64_t count = number(end + 10, 2), at = number(end + 16, 4);
    if (end >= 20 && number(end - 20, 4) == wide_place_mark) {
      const auto wide = number(end - 12, 8);
      if (number(wide, 4) != wide_end_mark) fail_whole("the ZIP64 directory is not at its declared offset");
      count = number(wide + 32, 8);
      at = number(wide + 48, 8);
    }
    if (count > file_.size / 46)
      fail_whole("directory: expected at most ", file_.size / 46, " entries in ", file_.size, " bytes; got ", count);
    std::vector<archive_entry> all;
    for (std::uint64_t i = 0; i < count; ++i) all.push_back(entry(at));
    return all;
  }
  archive_entry entry(std::uint64_t& at) const {
    if (number(at, 4) != entry_mark) fail_whole("the archive's directory is damaged");
    archive_entry e;
    const auto flags = number(at + 8, 2), name = number(at + 28, 2), extra = number(at + 30, 2),
               comment = number(at + 32, 2);
    e.method = number(at + 10, 2);
    e.crc = number(at + 16, 4);
    e.packed = number(at + 20, 4);
    e.size = number(at + 24, 4);
    e.place = number(at + 42, 4);
    at += 46;
    number(at + name + extra, 0);  // checks that they are inside the file
    e.name.assign(reinterpret_cast<const char*>(file_.data) + at, name);
    at += name;
    widen(e, at, at + extra);
    at += extra + comment;
    if (flags & 1) fail(e, "is encrypted");
    return e;
  }
  // Numbers beyond 32 bits are in an extra field.
  void widen(archive_entry& e, std::uint64_t at, std::uint64_t end) const {
    while (at + 4 <= end) {
      const auto kind = number(at, 2), size = number(at + 2, 2);
      at += 4;
      if (kind == 1) {
        auto field = at;
        for (std::uint64_t* n : {&e.size, &e.packed, &e.place})
          if (*n == all_ones && field + 8 <= std::min(end, at + size)) {
            *n = number(field, 8);
            field += 8;
          }
      }
      at += size;
    }
  }

  any_tensor array(const archive_entry& e) const {
    if (e.method != 0 && e.method != 8)
      fail(e, "is compressed by method ", e.method, "; expected 0 (stored) or 8 (deflated)");
    if (number(e.place, 4) != local_mark) fail(e, "has no header at the offset that the directory declares");
    const auto begin = e.place + 30 + number(e.place + 26, 2) + number(e.place + 28, 2);
    if (begin > file_.size || e.packed > file_.size - begin) fail(e, "reaches beyond the file (is it truncated?)");
    if (e.method == 0 ? e.size != e.packed : e.size / largest_ratio > e.packed + 1)
      fail(e, "has inconsistent sizes: ", e.size, " bytes uncompressed and ", e.packed, " compressed");
    const std::byte* data = file_.data + begin;
    std::vector<std::byte> whole;
    if (e.method == 8) {
      whole = unpacked(e, data);
      data = whole.data();
    }
    if (checksum(data, e.size) != e.crc) fail(e, "is damaged: its checksum differs from the directory's");
    return detail::npy_array({data, static_cast<std::size_t>(e.size)}, path_ + ": array `" + printable(e.name) + "`");
  }
  std::vector<std::byte> unpacked(const archive_entry& e, const std::byte* data) const {
    std::vector<std::byte> out(e.size);
    z_stream stream{};
    if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK)
      detail::raise(error_kind::memory, path_ + ": no memory to decompress");
    constexpr std::uint64_t max = std::uint64_t(1) << 30;
    std::uint64_t in = 0, made = 0;
    int state = Z_OK;
    while (state == Z_OK) {
      const auto given = std::min(max, e.packed - in), space = std::min(max, e.size - made);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data + in));
      stream.avail_in = static_cast<uInt>(given);
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + made);
      stream.avail_out = static_cast<uInt>(space);
      state = ::inflate(&stream, Z_NO_FLUSH);
      in += given - stream.avail_in;
      made += space - stream.avail_out;
      if (state == Z_OK && given == stream.avail_in && space == stream.avail_out) state = Z_BUF_ERROR;
    }
    ::inflateEnd(&stream);
    if (state != Z_STREAM_END || made != e.size)
      fail(e, "is damaged: its data does not decompress to ", e.size, " bytes");
    return out;
  }

  const std::string& path_;
  detail::mapped_file file_;
};

// Appends little-endian numbers, given a size in bytes and the number.
struct record {
  std::string bytes;
  record& operator()(int size, std::uint64_t v) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(v >> (8 * i) & 255);
    return *this;
  }
};

std::string deflated(const std::string& header, const any_tensor& v, const std::string& path) {
  z_stream stream{};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    detail::raise(error_kind::memory, path + ": no memory to compress");
  std::string out;
  char part[1 << 14];
  auto pack = [&](const void* data, std::size_t size, int flush) {
    stream.next_in = static_cast<Bytef*>(const_cast<void*>(data));
    stream.avail_in = static_cast<uInt>(size);
    do {
      stream.next_out = reinterpret_cast<Bytef*>(part);
      stream.avail_out = sizeof part;
      ::deflate(&stream, flush);
      out.append(part, sizeof part - stream.avail_out);
    } while (stream.avail_out == 0);
  };
  pack(header.data(), header.size(), Z_NO_FLUSH);
  pack(v.data(), v.bytes(), Z_FINISH);
  ::deflateEnd(&stream);
  return out;
}

}  // namespace

std::vector<named_tensor> read_npz(const std::string& path) { return archive(path).arrays(); }

void write_npz(const std::string& path, view<const named_tensor> arrays, bool compressed) {
  std::set<std::string_view> names;
  for (const auto& a : arrays) {
    text t;
    t << path << ": array `" << printable(a.name) << "`: ";
    if (!names.insert(a.name).second) detail::raise(error_kind::value, t << "two arrays have this name");
    if (a.name.empty() || a.name.size() > 65000)
      detail::raise(error_kind::value, t << "expected a name of 1 to 65000 bytes");
    if (a.value.element() == dtype::string)
      detail::raise(error_kind::unsupported, t << "strings cannot be written: npy has no variable-length strings");
    if (a.value.bytes() >= all_ones - 1024)
      detail::raise(error_kind::value, t << a.value.type() << " takes 4 GiB or more; use safetensors");
  }
  if (arrays.size() >= 65535) detail::raise(error_kind::value, path + ": at most 65534 arrays are supported");
  write_file_atomically(path, [&](writer& out) {
    record directory;
    std::uint64_t place = 0;
    for (const auto& a : arrays) {
      const auto header = detail::npy_prefix(a.value.type());
      const std::string name = a.name + ".npy", packed = compressed ? deflated(header, a.value, path) : std::string();
      const std::uint64_t size = header.size() + a.value.bytes(), takes = compressed ? packed.size() : size;
      auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
      if (a.value.bytes()) crc = ::crc32_z(crc, reinterpret_cast<const Bytef*>(a.value.data()), a.value.bytes());
      // Version 2.0, names in UTF-8, method, the first day of 1980, checksum, sizes, lengths of name and extra field.
      record both;
      both(2, 20)(2, 0x800)(2, compressed ? 8 : 0)(2, 0)(2, 0x21)(4, crc)(4, takes)(4, size)(2, name.size())(2, 0);
      record local;
      local(4, local_mark).bytes += both.bytes + name;
      out.write(local.bytes);
      if (compressed) out.write(packed);
      else {
        out.write(header);
        out.write(a.value.data(), a.value.bytes());
      }
      directory(4, entry_mark)(2, 20).bytes += both.bytes;
      directory(2, 0)(2, 0)(2, 0)(4, 0)(4, place).bytes += name;
      place += local.bytes.size() + takes;
      if (place > all_ones - 65536)
        detail::raise(error_kind::value, path + ": the arrays take 4 GiB or more; use safetensors");
    }
    const auto size = directory.bytes.size();
    directory(4, end_mark)(2, 0)(2, 0)(2, arrays.size())(2, arrays.size())(4, size)(4, place)(2, 0);
    out.write(directory.bytes);
  });
}

}  // namespace lamina
