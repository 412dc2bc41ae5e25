module;
#include "json.h"
// The safetensors format.
module lamina:io.safetensors.impl;
import :core;
import :dtype;
import :io;
import :io.file.impl;
import :io.json_writer.impl;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::file_failure;

constexpr std::uint64_t largest_header = 100'000'000;
constexpr std::string_view metadata_key = "__metadata__";
// In the order of `dtype`; empty if the format lacks the type.
constexpr std::string_view format_names[] = {"F32", "F64",     "F16", "BF16", "I8",  "I16",     "I32", "I64",
                                             "U8",  "BOOL",    "U16", "U32",  "U64", "F8_E4M3", "",    "F8_E5M2",
                                             "",    "F8_E8M0", "",    "",     "",    "",        "",    ""};
static_assert(std::size(format_names) == dtype_count);

/// Header entry of one tensor.
struct description {
  std::string name, type;
  std::vector<std::int64_t> extents, offsets;
  bool has_type = false, has_shape = false, has_offsets = false;
  tensor_type checked;
};

/// Reads the header event by event: the expected structure bounds its depth, and only the descriptions are built.  An
/// unexpected event sets `reason` and stops the parser.
class header_reader final : public json::events {
 public:
  std::vector<description> tensors;
  std::map<std::string, std::string> metadata;
  text reason;

  bool start_object() override {
    if (at_ == place::outside) return go(place::top);
    if (at_ == place::metadata_value) return go(place::metadata);
    if (at_ == place::tensor_value) return go(place::tensor);
    return unexpected("an object");
  }
  bool key(const char* chars, std::size_t count) override {
    key_.assign(chars, count);
    if (at_ == place::top) {
      bool is_metadata = key_ == metadata_key;
      if (!names_.insert(key_).second) {
        reason << "tensor `" << printable(key_) << "`: the header names it twice";
        return false;
      }
      if (!is_metadata) tensors.emplace_back().name = key_;
      return go(is_metadata ? place::metadata_value : place::tensor_value);
    }
    if (at_ == place::metadata) {
      if (metadata.contains(key_)) return refuse("a key is given twice");
      return go(place::metadata_text);
    }
    auto& t = tensors.back();
    bool* known = key_ == "dtype"          ? &t.has_type
                  : key_ == "shape"        ? &t.has_shape
                  : key_ == "data_offsets" ? &t.has_offsets
                                           : nullptr;
    if (!known) return refuse("expected the keys dtype, shape and data_offsets; got `", printable(key_), "`");
    if (std::exchange(*known, true)) return refuse(key_, " is given twice");
    return go(key_ == "dtype" ? place::type : key_ == "shape" ? place::shape_value : place::offsets_value);
  }
  bool end_object() override {
    if (at_ == place::top) return go(place::end);
    if (at_ == place::tensor) {
      auto& t = tensors.back();
      if (!t.has_type || !t.has_shape || !t.has_offsets)
        return refuse(!t.has_type ? "dtype" : !t.has_shape ? "shape" : "data_offsets", " is missing");
    }
    return go(place::top);
  }
  bool start_array() override {
    if (at_ == place::shape_value) return go(place::shape);
    if (at_ == place::offsets_value) return go(place::offsets);
    return unexpected("an array");
  }
  bool end_array() override { return go(place::tensor); }
  bool string(const char* chars, std::size_t count) override {
    if (at_ == place::type) {
      tensors.back().type.assign(chars, count);
      return go(place::tensor);
    }
    if (at_ == place::metadata_text) {
      metadata[key_].assign(chars, count);
      return go(place::metadata);
    }
    return unexpected("a string");
  }
  bool unsigned_number(std::uint64_t v) override {
    if (!in_numbers()) return unexpected("a number");
    if (v > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return refuse(key_, ": expected integers from 0 to 2^63 - 1; got ", v);
    auto& list = at_ == place::shape ? tensors.back().extents : tensors.back().offsets;
    std::size_t max = at_ == place::shape ? max_rank : 2;
    if (list.size() == max) return refuse(key_, " has more than ", max, " numbers");
    list.push_back(static_cast<std::int64_t>(v));
    return true;
  }
  bool other_number(const char* spelling, std::size_t count) override {
    if (!in_numbers()) return unexpected("a number");
    return refuse(key_, ": expected integers from 0 to 2^63 - 1; got ", printable({spelling, count}));
  }
  bool other(const char* name) override { return unexpected(name); }
  void error(std::size_t byte) override { reason << "the header is not JSON: error at byte " << byte; }

 private:
  enum class place {
    outside,
    top,
    metadata_value,
    metadata,
    metadata_text,
    tensor_value,
    tensor,
    type,
    shape_value,
    shape,
    offsets_value,
    offsets,
    end
  };
  bool go(place p) {
    at_ = p;
    return true;
  }
  bool in_numbers() const { return at_ == place::shape || at_ == place::offsets; }
  template <class... T> bool refuse(const T&... parts) {
    bool in_metadata = at_ == place::metadata || at_ == place::metadata_value || at_ == place::metadata_text;
    if (in_metadata) reason << metadata_key << ": ";
    else if (!tensors.empty()) reason << "tensor `" << printable(tensors.back().name) << "`: ";
    (reason << ... << parts);
    return false;
  }
  bool unexpected(std::string_view found) {
    std::string_view expected = at_ == place::outside          ? "header: expected an object of tensors"
                                : at_ == place::metadata_value ? "expected an object of strings"
                                : at_ == place::metadata_text  ? "values: expected strings"
                                : at_ == place::tensor_value   ? "expected an object with dtype, shape and data_offsets"
                                : at_ == place::type           ? "dtype: expected a string"
                                : at_ == place::shape_value    ? "shape: expected an array"
                                : at_ == place::offsets_value  ? "data_offsets: expected an array"
                                                               : "expected only integers";
    return refuse(expected, "; got ", found);
  }

  place at_ = place::outside;
  std::string key_;
  std::set<std::string> names_;
};

/// Checks one description against the available bytes and those that earlier tensors use.
void check(const std::string& path, description& d, std::int64_t taken, std::int64_t available) {
  text t;
  t << "tensor `" << printable(d.name) << "`: ";
  auto fail = [&] { file_failure(path, t); };

  int type = 0;
  while (type < dtype_count && (format_names[type].empty() || format_names[type] != d.type)) ++type;
  if (type == dtype_count) {
    t << "dtype: expected one of";
    for (auto n : format_names)
      if (!n.empty()) t << ' ' << n;
    t << "; got " << printable(d.type, 40);
    fail();
  }
  d.checked = {static_cast<dtype>(type), shape::of(d.extents)};

  auto bytes = detail::checked_bytes(d.extents, size_of(d.checked.element));
  if (bytes < 0) {
    t << "the shape " << d.checked.dims << " has more elements than memory can hold";
    fail();
  }
  if (d.offsets.size() != 2) {
    t << "data_offsets: expected begin and end; got " << d.offsets.size() << " numbers";
    fail();
  }
  auto begin = d.offsets[0], end = d.offsets[1];
  if (begin > end) {
    t << "data_offsets: expected begin <= end; got " << begin << ".." << end;
    fail();
  }
  if (end > available) {
    t << "data_offsets: expected offsets within the " << available << " bytes of data; got " << begin << ".." << end
      << " (is the file truncated?)";
    fail();
  }
  if (end - begin != bytes) {
    t << "data_offsets: expected " << bytes << " bytes for " << d.checked << "; got " << end - begin << ", from "
      << begin << ".." << end;
    fail();
  }
  if (begin != taken) {
    t << "data_offsets: expected to begin at " << taken << ", where the previous tensor ends; got " << begin
      << (begin < taken ? " (overlap)" : " (gap)");
    fail();
  }
}

void check_values(const std::string& path, const description& d, const std::byte* bytes) {
  if (d.checked.element != dtype::boolean) return;
  for (std::size_t i = 0; i < d.checked.bytes(); ++i)
    if (static_cast<unsigned>(bytes[i]) > 1) {
      text t;
      t << "tensor `" << printable(d.name) << "`: BOOL: expected bytes 0 or 1; element " << i << " is "
        << static_cast<unsigned>(bytes[i]);
      file_failure(path, t);
    }
}

/// A tensor in the mapping, or a copy if its bytes are misaligned.
any_tensor take(const std::string& path, const description& d, std::byte* bytes,
                const std::shared_ptr<detail::mapped_file>& file) {
  auto size = d.checked.bytes();
  check_values(path, d, bytes);
  if (size && reinterpret_cast<std::uintptr_t>(bytes) % size_of(d.checked.element) == 0)
    return any_tensor(storage::borrowed(bytes, size, file), d.checked);
  any_tensor copy(storage(size), d.checked);
  if (size) std::memcpy(copy.mutable_data(), bytes, size);
  return copy;
}

/// Header length of a file of `size` bytes that begins with `first`.
std::uint64_t length_of_header(const std::string& path, const std::byte* first, std::size_t size) {
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | static_cast<std::uint64_t>(first[i]);
  if (length > largest_header) {
    text t;
    t << "header length: expected at most " << largest_header << "; got " << length << " (not a safetensors file?)";
    file_failure(path, t);
  }
  if (length > size - 8) {
    text t;
    t << "header: expected " << length << " bytes; got " << size - 8 << " (is it truncated?)";
    file_failure(path, t);
  }
  return length;
}
void check_first(const std::string& path, std::size_t size) {
  if (size >= 8) return;
  text t;
  t << "header length: expected 8 bytes; got " << size << " (not a safetensors file?)";
  file_failure(path, t);
}

/// Reads a header and checks it against the file size; sorts tensors by the position of their bytes.
void read_header(const std::string& path, const char* header, std::uint64_t length, std::size_t size,
                 header_reader& reader) {
  if (!json::parse(header, length, reader)) file_failure(path, reader.reason);
  auto& found = reader.tensors;
  detail::sort_stably<description>(found, [](const auto& a, const auto& b) { return a.offsets < b.offsets; });
  auto available = static_cast<std::int64_t>(size - 8 - length), taken = std::int64_t(0);
  for (auto& d : found) {
    check(path, d, taken, available);
    taken = d.offsets[1];
  }
  if (taken != available) {
    text t;
    t << "data: expected " << taken << " bytes for all tensors; got " << available;
    file_failure(path, t);
  }
}

}  // namespace

const any_tensor* safetensors_file::find(std::string_view name) const {
  for (auto& t : tensors)
    if (t.name == name) return &t.value;
  return nullptr;
}

safetensors_file read_safetensors(const std::string& path) {
  auto file = std::make_shared<detail::mapped_file>(path);
  check_first(path, file->size);
  const std::uint64_t length = length_of_header(path, file->data, file->size);
  header_reader reader;
  read_header(path, reinterpret_cast<const char*>(file->data) + 8, length, file->size, reader);

  safetensors_file result;
  result.metadata = std::move(reader.metadata);
  result.tensors.reserve(reader.tensors.size());
  for (auto& d : reader.tensors) {
    auto tensor = take(path, d, file->data + 8 + length + d.offsets[0], file);
    result.tensors.push_back({std::move(d.name), std::move(tensor)});
  }
  return result;
}

struct safetensors_reader::implementation {
  explicit implementation(const std::string& p) : path(p), file(detail::open_for_reading(p, size)) {}
  std::string path;
  std::int64_t size = 0;
  detail::descriptor file;
  std::int64_t data = 0;  // offset of the data
  std::vector<description> tensors;
};

safetensors_reader::safetensors_reader(const std::string& path) : impl_(std::make_unique<implementation>(path)) {
  const auto size = static_cast<std::size_t>(impl_->size);
  check_first(path, size);
  std::byte first[8];
  detail::read_at(impl_->file.number, path, 0, first, 8);
  const std::uint64_t length = length_of_header(path, first, size);
  std::vector<char> header(length);
  detail::read_at(impl_->file.number, path, 8, header.data(), length);
  header_reader reader;
  read_header(path, header.data(), length, size, reader);
  impl_->data = 8 + static_cast<std::int64_t>(length);
  impl_->tensors = std::move(reader.tensors);
  metadata = std::move(reader.metadata);
  for (const auto& d : impl_->tensors) tensors.push_back({d.name, d.checked});
}
safetensors_reader::~safetensors_reader() = default;

const safetensors_reader::entry* safetensors_reader::find(std::string_view name) const {
  for (const auto& t : tensors)
    if (t.name == name) return &t;
  return nullptr;
}

any_tensor safetensors_reader::read(const entry& what) const {
  const description& d = impl_->tensors[static_cast<std::size_t>(&what - tensors.data())];
  any_tensor made(storage(d.checked.bytes()), d.checked);
  detail::read_at(impl_->file.number, impl_->path, impl_->data + d.offsets[0], made.mutable_data(), d.checked.bytes());
  check_values(impl_->path, d, static_cast<const std::byte*>(made.data()));
  return made;
}

void write_safetensors(const std::string& path, view<const named_tensor> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<safetensors_reader::entry> entries;
  for (const auto& t : tensors) entries.push_back({t.name, t.value.type()});
  write_safetensors(path, view<const safetensors_reader::entry>(entries.data(), entries.size()), metadata,
                    [&](std::size_t i, writer& out) { out.write(tensors[i].value.data(), tensors[i].value.bytes()); });
}

void write_safetensors(const std::string& path, view<const safetensors_reader::entry> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const std::function<void(std::size_t, writer&)>& elements) {
  std::vector<const safetensors_reader::entry*> order;
  std::set<std::string_view> names;
  for (auto& t : tensors) {
    if (t.name == metadata_key || !names.insert(t.name).second) {
      text e;
      e << path << ": tensor `" << printable(t.name)
        << "`: " << (t.name == metadata_key ? "this name is reserved" : "two tensors have this name");
      detail::raise(error_kind::value, e);
    }
    if (format_names[static_cast<int>(t.type.element)].empty()) {
      text e;
      e << path << ": tensor `" << printable(t.name) << "`: safetensors has no type for " << t.type.element;
      if (t.type.element != dtype::string) e << "; bit_cast it to uint8 or int8 first";
      detail::raise(error_kind::unsupported, e);
    }
    order.push_back(&t);
  }
  detail::sort_stably<const safetensors_reader::entry*>(
      order, [](auto* a, auto* b) { return size_of(a->type.element) > size_of(b->type.element); });

  text header;
  auto string = [&](std::string_view v) { detail::quoted(header, v, path); };
  header << "{";
  if (!metadata.empty()) {
    string(metadata_key);
    bool first = true;
    for (auto& [k, v] : metadata) {
      header << (std::exchange(first, false) ? ":{" : ",");
      string(k);
      header << ":";
      string(v);
    }
    header << "}";
  }
  std::size_t at = 0;
  for (auto* t : order) {
    if (header.chars.size() > 1) header << ",";
    string(t->name);
    header << ":{\"dtype\":\"" << format_names[static_cast<int>(t->type.element)] << "\",\"shape\":[";
    for (int i = 0; i < t->type.dims.rank; ++i) header << (i ? "," : "") << t->type.dims.at(i);
    header << "],\"data_offsets\":[" << at << "," << at + t->type.bytes() << "]}";
    at += t->type.bytes();
  }
  header << "}";
  std::string header_text = header.string();
  // Aligns the data to 64 bytes; the format allows spaces after the header.
  header_text.append((64 - (header_text.size() + 8) % 64) % 64, ' ');
  if (header_text.size() > largest_header)
    detail::raise(error_kind::value, path + ": names and metadata take more than the 100 MB that the format allows");

  write_file_atomically(path, [&](writer& out) {
    unsigned char length[8];
    for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(header_text.size() >> (8 * i));
    out.write(length, sizeof length);
    out.write(header_text);
    for (auto* t : order) elements(static_cast<std::size_t>(t - tensors.data()), out);
  });
}

}  // namespace lamina
