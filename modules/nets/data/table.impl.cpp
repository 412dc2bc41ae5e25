module lamina:data.table.impl;
import :core;
import :data.set;
import :data.table;
import :dtype;
import :io;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

tensor_rows::tensor_rows(std::vector<any_tensor> columns, std::vector<std::string> names)
    : columns_(std::move(columns)), names_(std::move(names)) {
  if (columns_.empty() || columns_.size() > detail::max_fields) {
    text t;
    t << "tensor_rows: " << columns_.size() << " tensors; expected 1 to " << detail::max_fields;
    if (!names_.empty()) t << ": name the ones to read";
    detail::raise(error_kind::value, t);
  }
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const tensor_type& type = columns_[k].type();
    text t;
    t << "tensor_rows: ";
    if (k < names_.size()) t << "`" << printable(names_[k]) << "`";
    else t << "tensor " << k;
    t << " is " << type << "; expected ";
    if (type.element == dtype::string) detail::raise(error_kind::type, t << "numbers");
    if (type.dims.rank == 0) detail::raise(error_kind::shape, t << "at least one axis, for its rows");
    if (k == 0) size_ = type.dims.at(0);
    if (type.dims.at(0) != size_) detail::raise(error_kind::shape, t << size_ << " rows, as in the tensors before it");
    types_.push_back({type.element, without_first(type.dims)});
  }
  if (!names_.empty()) names_.resize(columns_.size());
}

void tensor_rows::check(std::int64_t i) const {
  if (i >= 0 && i < size_) return;
  text t;
  t << "tensor_rows: index " << i << " is outside 0.." << size_ - 1;
  if (size_ == 0) t << ": it has no rows";
  detail::raise(error_kind::value, t);
}

any_sample tensor_rows::operator[](std::int64_t i) const {
  check(i);
  any_sample s;
  for (const auto& c : columns_) {
    const tensor_type& row = types_[s.count];
    const auto from = static_cast<std::size_t>(c.data() - static_cast<const std::byte*>(c.memory().data()));
    s.fields[s.count++] = any_tensor(c.memory(), row, from + static_cast<std::size_t>(i) * row.bytes());
  }
  return s;
}

void tensor_rows::read(view<const std::int64_t> indices, view<void* const> destinations) const {
  for (auto i : indices) check(i);
  for (std::size_t k = 0; k < columns_.size(); ++k) {
    const std::size_t bytes = types_[k].bytes();
    auto* to = static_cast<std::byte*>(destinations[k]);
    if (bytes == 0) continue;
    for (auto i : indices) {
      std::memcpy(to, columns_[k].data() + static_cast<std::size_t>(i) * bytes, bytes);
      to += bytes;
    }
  }
}

const std::vector<std::string>& csv_table::names(std::size_t field) const {
  if (field < names_.size()) return names_[field];
  text t;
  t << "csv_table: field " << field << " of " << names_.size() << "; fields are counted from 0";
  detail::raise(error_kind::value, t);
}

std::string csv_table::location(std::int64_t i, std::size_t field, std::int64_t element) const {
  if (i < 0 || i >= size()) return {};
  text t;
  t << from_->file << ":" << from_->lines[static_cast<std::size_t>(i)];
  if (field >= names_.size()) return t.string();
  const auto& columns = names_[field];
  if (columns.size() == 1) element = 0;
  if (element >= 0 && element < static_cast<std::int64_t>(columns.size()))
    t << ", column `" << printable(columns[static_cast<std::size_t>(element)]) << "`";
  return t.string();
}

namespace {
// Selected tensors of a file, in the order of `names`, or all.
tensor_rows chosen(const std::string& path, view<const named_tensor> there, const std::vector<std::string>& names) {
  std::vector<any_tensor> columns;
  std::vector<std::string> all;
  std::vector<std::string_view> known;
  for (const auto& t : there) known.push_back(t.name);
  if (names.empty())
    for (const auto& t : there) {
      columns.push_back(t.value);
      all.push_back(t.name);
    }
  for (const auto& name : names) {
    const auto found = std::find(known.begin(), known.end(), name);
    if (found == known.end()) {
      text t;
      t << path << ": there is no tensor `" << printable(name) << "`";
      suggest_names(t, name, known);
      detail::raise(error_kind::value, t);
    }
    columns.push_back(there[static_cast<std::size_t>(found - known.begin())].value);
    all.push_back(name);
  }
  return tensor_rows(std::move(columns), std::move(all));
}
}  // namespace

tensor_rows datasets::npy(const std::string& path) { return tensor_rows({read_npy(path)}, {path}); }
tensor_rows datasets::npz(const std::string& path, const std::vector<std::string>& names) {
  return chosen(path, read_npz(path), names);
}
tensor_rows datasets::safetensors(const std::string& path, const std::vector<std::string>& names) {
  return chosen(path, read_safetensors(path).tensors, names);
}

}  // namespace lamina
