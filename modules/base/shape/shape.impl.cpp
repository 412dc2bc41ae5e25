module lamina:shape.impl;
import :core;
import :shape;
import lamina.std;

namespace lamina {

void dim::extent_below_zero(std::int64_t n, bool is_unsigned) {
  text t;
  t << "an extent is ";
  if (is_unsigned)
    t << static_cast<std::uint64_t>(n) << "; expected at most " << std::numeric_limits<std::int64_t>::max();
  else t << n << "; expected 0 or more, or `dyn` where it is not known";
  detail::raise(error_kind::shape, t);
}
void dim::bad_name() {
  detail::raise(error_kind::value,
                "a dimension name has 1 to 10 letters, digits or underscores; names of up to 100 characters, "
                "with . + - * / ( ) and spaces too, are allowed at run time");
}

namespace {
// Names too long to pack into a word, by hash. Entries are never removed; `max` rejects files that name extents without
// end.
struct long_names {
  static constexpr std::size_t max = 1 << 20;
  std::mutex mutex;
  std::unordered_map<std::int64_t, std::string> by_code;
};
long_names& names() {
  static long_names all;
  return all;
}
bool may_name(std::string_view name) {
  return !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_.+-*/() ").find(c) != std::string_view::npos;
  });
}
}  // namespace

std::int64_t dim::long_code(std::string_view name) {
  if (!may_name(name)) bad_name();
  std::uint64_t h = 0xcbf29ce484222325u;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  h ^= h >> 29;
  const std::int64_t code = first_long - static_cast<std::int64_t>(h & ((std::uint64_t(1) << 60) - 1));
  auto& all = names();
  const std::lock_guard lock(all.mutex);
  if (all.by_code.size() >= long_names::max)
    detail::raise(error_kind::value, "more than a million dimension names are longer than 10 letters");
  const auto [at, fresh] = all.by_code.try_emplace(code, name);
  if (!fresh && at->second != name)
    detail::raise(error_kind::value, "two dimension names have the same hash; rename one");
  return code;
}
std::string_view dim::long_name(std::int64_t code) {
  auto& all = names();
  const std::lock_guard lock(all.mutex);
  const auto at = all.by_code.find(code);
  return at == all.by_code.end() ? std::string_view("?") : std::string_view(at->second);
}

void shape::outside() { detail::raise(error_kind::value, "shape: an index is outside the shape"); }
void shape::no_such_axis(const shape& s, int axis) {
  text t;
  if (s.rank == 0) t << "shape [] has no axes";
  else t << "shape " << s << " has no axis " << axis << "; expected 0 to " << s.rank - 1;
  detail::raise(error_kind::value, t);
}
void shape::not_countable(const shape& s) {
  text t;
  t << "shape " << s;
  if (s.is_static()) t << " has more than 2^63 - 1 elements";
  else t << " has no size: not all of its extents are numbers";
  detail::raise(error_kind::shape, t);
}
void place::no_such_axis(int axis, int rank) {
  text t;
  detail::raise(error_kind::value, t << "a place of rank " << rank << " has no axis " << axis);
}
void axes::not_in_list(int i, int count) {
  text t;
  detail::raise(error_kind::value, t << "a list of " << count << " axes has no position " << i);
}
void shape::too_many() { detail::raise(error_kind::shape, "a tensor has at most 8 dimensions"); }

}  // namespace lamina
