module lamina:text.impl;
import :core;
import :text;
import :io.file.impl;
import :shape;
import :tensor;
import :unicode;
import lamina.std;

namespace lamina {

struct line_dataset::contents {
  std::string text, name;
  std::vector<std::pair<std::size_t, std::size_t>> lines;  // offset and length
};

namespace {

[[noreturn]] void outside(std::string_view caller, std::int64_t i, std::int64_t size) {
  text t;
  detail::raise(error_kind::value, t << caller << ": index " << i << " is outside 0.." << size - 1);
}

void check_utf8(std::string& s, const line_options& o, std::string_view name) {
  const std::size_t at = detail::valid_utf8(s);
  if (at == s.size()) return;
  if (o.replace_invalid) {
    s = detail::replace_invalid_utf8(s);
    return;
  }
  const auto begin = s.begin(), end = begin + static_cast<std::ptrdiff_t>(at);
  const std::size_t before = s.rfind('\n', at), first = at == 0 || before == s.npos ? 0 : before + 1;
  text t;
  t << "line " << 1 + std::count(begin, end, '\n') << ", byte " << 1 + at - first << " is not valid UTF-8";
  detail::file_failure(name, t);
}
bool is_blank(std::string_view s) {
  while (!s.empty())
    if (!detail::is_space(detail::next_code(s))) return false;
  return true;
}

}  // namespace

line_dataset::line_dataset(std::shared_ptr<const contents> c) : contents_(std::move(c)) {}
std::int64_t line_dataset::size() const { return static_cast<std::int64_t>(contents_->lines.size()); }
std::string_view line_dataset::line(std::int64_t i) const {
  if (i < 0 || i >= size()) outside("line_dataset", i, size());
  const auto& [first, length] = contents_->lines[static_cast<std::size_t>(i)];
  return std::string_view(contents_->text).substr(first, length);
}

std::string line_dataset::location(std::int64_t i) const {
  const char* const begin = contents_->text.data();
  return contents_->name + ":" + std::to_string(1 + std::count(begin, line(i).data(), '\n'));
}

line_dataset datasets::lines_of(std::string all, const line_options& o, std::string_view name) {
  auto made = std::make_shared<line_dataset::contents>();
  made->text = std::move(all);
  made->name = name;
  check_utf8(made->text, o, name);
  const std::string_view s = made->text;
  for (std::size_t at = s.starts_with("\xEF\xBB\xBF") ? 3 : 0; at < s.size();) {
    const std::size_t end = std::min(s.find('\n', at), s.size());
    const std::size_t length = end - at - (end > at && s[end - 1] == '\r');
    if (!o.skip_empty || !is_blank(s.substr(at, length))) made->lines.emplace_back(at, length);
    at = end + 1;
  }
  return line_dataset(std::move(made));
}
line_dataset datasets::lines(const std::string& path, const line_options& o) {
  std::int64_t size = 0;
  const detail::descriptor file(detail::open_for_reading(path, size));
  std::string all(static_cast<std::size_t>(size), '\0');
  detail::read_at(file.number, path, 0, all.data(), all.size());
  return lines_of(std::move(all), o, path);
}

window_dataset::window_dataset(vector<std::int64_t> ids, std::int64_t length, std::int64_t stride)
    : ids_(std::move(ids)), length_(length), stride_(stride == 0 ? length : stride) {
  if (length < 1 || stride < 0) {
    text t;
    detail::raise(error_kind::value, t << "token_windows: length is " << length << " and stride is " << stride
                                       << "; expected at least 1 and 0");
  }
  const std::int64_t n = ids_.size();
  size_ = n > length ? (n - length - 1) / stride_ + 1 : 0;
}
token_window window_dataset::operator[](std::int64_t i) const {
  if (i < 0 || i >= size_) outside("window_dataset", i, size_);
  const std::int64_t first = i * stride_;
  return {ids_.rows(first, first + length_), ids_.rows(first + 1, first + 1 + length_)};
}
window_dataset datasets::token_windows(const vector<std::int64_t>& ids, std::int64_t length, std::int64_t stride) {
  return {ids, length, stride};
}
window_dataset datasets::token_windows(const std::vector<std::int64_t>& ids, std::int64_t length, std::int64_t stride) {
  auto copy = vector<std::int64_t>::uninitialized({static_cast<std::int64_t>(ids.size())});
  std::copy(ids.begin(), ids.end(), copy.writable().begin());
  return {std::move(copy), length, stride};
}

}  // namespace lamina
