// The arithmetic of shapes in constant evaluation.
module lamina;
import lamina.std;

namespace {

using namespace lamina;

static_assert(shape{2, 3}.size() == 6 && shape{}.size() == 1);
static_assert(shape{2, 3, 4}.size(1, 3) == 12);
static_assert([] {
  std::int64_t digits = 0;
  const shape s{2, 3, 4};
  for (int i = s.rank; i-- > 0;) digits = 10 * digits + s[i].code;
  return digits;
}() == 432 && shape{2, 3, 4}.back() == dim(4));
static_assert(shape{2, 3} == shape{2, 3} && shape{2, 3} != shape{3, 2} && shape{2} != shape{2, 1});
static_assert(shape{2, 3}.is_static() && !shape{dyn, 3}.is_static() && !shape{"N", 3}.is_static());
static_assert(dim("N") == dim("N") && dim("N") != dim("M") && dim("N") != dyn);
static_assert(std::same_as<extents_for<shape{"N", 3}>, extents<"N", 3>>);
static_assert(!std::same_as<extents<2, 3>, extents<3, 2>>);

static_assert(shape{2, 3, 4}.offset_of({1, 2, 3}) == 23 && shape{2, 3, 4}.offset_of({0, 1, 0}) == 4 &&
              shape{}.offset_of({}) == 0);
static_assert(shape{2, 3, 4}.place_of(23) == place(1, 2, 3) && shape{}.place_of(0) == place());
static_assert(shape{2, 3}.place_of(shape{2, 3}.offset_of({0, 2}) + 1) == place(1, 0));

consteval bool prints(const shape& s, std::string_view expected) {
  message_text t;
  t << s;
  return t.view() == expected;
}
static_assert(prints({2, 3}, "[2x3]"));
static_assert(prints({}, "[]"));
static_assert(prints({"batch", 1, 28}, "[batchx1x28]"));

static_assert(may_equal(3, 3) && !may_equal(3, 4) && may_equal(dyn, 4) && may_equal("N", "M"));
static_assert(better("N", 4) == dim(4) && better(dyn, "N") == dim("N") && better(dyn, dyn) == dyn);
static_assert(fits({"N", 3}, {7, 3}) && !fits({"N", 3}, {7, 4}) && !fits({"N", 3}, {7, 3, 1}));

static_assert(fits({"N", "N"}, {7, 7}) && fits({"N", "N"}, {7, dyn}) && !fits({"N", "N"}, {7, 8}) &&
              !fits({"N", 2, "N"}, {7, 2, 8}));
static_assert(fits({dyn, dyn}, {7, 8}) && fits({"N", "M"}, {7, 8}));
consteval dim clash(const shape& a, const shape& is, const shape& b, const shape& also) {
  const shape patterns[] = {a, b}, given[] = {is, also};
  return clash_of_names(patterns, given).name;
}
static_assert(clash({"T", 4}, {128, 4}, {"T"}, {64}) == dim("T") &&
              clash({"T", 4}, {128, 4}, {3, "T"}, {3, 128}) == dim());
static_assert(clash({"T"}, {dyn}, {"T"}, {64}) == dim() && clash({}, {}, {"T", "T"}, {2, 3}) == dim("T"));

template <class T>
concept IsExtent = std::constructible_from<dim, T>;
static_assert(IsExtent<int> && IsExtent<std::uint8_t> && IsExtent<std::size_t> && !IsExtent<bool> && !IsExtent<char> &&
              !IsExtent<double>);
static_assert(shape{std::int64_t(1) << 40, std::int64_t(1) << 40, 0}.size() == 0);

consteval bool broadcasts(const shape& a, const shape& b, const shape& expected) {
  shape forth, back;
  return broadcast(a, b, forth) && broadcast(b, a, back) && forth == expected && back == expected;
}
consteval bool clashes(const shape& a, const shape& b) {
  shape result;
  return !broadcast(a, b, result) && !broadcast(b, a, result);
}
static_assert(broadcasts({4, 3}, {3}, {4, 3}));
static_assert(broadcasts({4, 1}, {1, 3}, {4, 3}));
static_assert(broadcasts({}, {2, 2}, {2, 2}));
static_assert(broadcasts({dyn, 3}, {5, 1}, {5, 3}));
static_assert(broadcasts({"N", 3}, {"N", 3}, {"N", 3}));
static_assert(clashes({4, 3}, {4}));

static_assert(window_positions(28, 5, 1, 0, 1) == dim(24));
static_assert(window_positions(28, 5, 1, 2, 1) == dim(28));
static_assert(window_positions(28, 3, 2, 1, 1) == dim(14));
static_assert(window_positions(28, 3, 1, 0, 2) == dim(24));
static_assert(window_positions(4, 5, 1, 0, 1) == dim(0));
static_assert(window_positions(dyn, 5, 1, 0, 1) == dyn);
static_assert(window_positions(5, 5, 1, 0, 1) == dim(1));
static_assert(window_positions(0, 1, 1, 0, 1) == dim(0));
static_assert(window_positions(28, 3, 1, 0, std::int64_t(1) << 62) == dim(0));
static_assert(window_positions(28, std::int64_t(1) << 62, 1, 0, 4) == dim(0));
static_assert(window_positions(28, 3, 1, std::int64_t(1) << 62, 1) == dim(0));
static_assert(window_positions(1, 1, 1, (std::int64_t(1) << 62) - 1, 1) ==
              dim(std::numeric_limits<std::int64_t>::max()));
static_assert(window_positions(28, 1, std::numeric_limits<std::int64_t>::max(), 0, 1) == dim(1));
static_assert(window_positions(28, 0, 1, 0, 1) == dim(0));
static_assert(window_positions(28, 3, 0, 0, 1) == dim(0));
static_assert(window_positions(28, 3, 1, -1, 1) == dim(0));

static_assert(axes(0, -1).count == 2 && axes(0, -1)[1] == -1 && axes() == axes());
static_assert(axes((1ll << 32) + 1)[0] > max_rank);

consteval bool strides_are(const shape& s, view<const std::int64_t> expected) {
  std::int64_t strides[max_rank]{};
  row_major_strides(s, strides);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (strides[i] != expected[i]) return false;
  return true;
}
static_assert(strides_are({2, 3, 4}, {12, 4, 1}));
static_assert(!strides_are({2, 3, 4}, {1, 2, 6}));

// A dimension is made from an integer type for numbers, not from a character or a bool.
enum class scoped { zero };
static_assert(std::constructible_from<dim, int>);
static_assert(std::constructible_from<dim, unsigned>);
static_assert(std::constructible_from<dim, long long>);
static_assert(std::constructible_from<dim, std::int8_t>);
static_assert(std::constructible_from<dim, std::uint8_t>);
static_assert(std::constructible_from<dim, std::size_t>);
static_assert(!std::constructible_from<dim, bool>);
static_assert(!std::constructible_from<dim, char>);
static_assert(!std::constructible_from<dim, wchar_t>);
static_assert(!std::constructible_from<dim, char8_t>);
static_assert(!std::constructible_from<dim, char16_t>);
static_assert(!std::constructible_from<dim, char32_t>);
static_assert(!std::constructible_from<dim, double>);
static_assert(!std::constructible_from<dim, scoped>);

}  // namespace
