// Text, diagnostics, packs, labels and dicts in constant evaluation.
import lamina;
import lamina.std;

namespace {

using namespace lamina;

template <class... T> consteval bool prints(std::string_view expected, T... values) {
  message_text t;
  (t << ... << values);
  return t.view() == expected;
}
static_assert(prints("0", 0));
static_assert(prints("-128 127", std::int8_t(-128), ' ', std::int8_t(127)));
static_assert(prints("18446744073709551615", ~std::uint64_t(0)));
static_assert(prints("true/false", true, '/', false));
static_assert(prints("0.5 -2 3.25", 0.5, ' ', -2.0, ' ', 3.25));
static_assert(prints("1e20", 1e20));
static_assert(!prints("1", 2));

struct silent {
  static consteval message_text message() { return {}; }
};
struct complaint {
  static consteval message_text message() { return message_text("no"); }
};
static_assert(no_error<silent>);
static_assert(!no_error<complaint>);
static_assert(diagnostic<complaint>().view() == "no");

static_assert(type_name<int>() == "int");
static_assert(std::same_as<pick_type<1, int, float, double>, float>);

constexpr pack<int, double> two{{1}, {2.5}};
static_assert(two.get<0>() == 1 && two.get<1>() == 2.5 && two.size == 2);

static_assert(label("a") < label("b") && !(label("b") < label("a")));
static_assert(label("conv1") == label("conv1") && label("conv1") != label("conv2"));
static_assert(label().empty() && !label("a").empty());
static_assert(prints("a_name_of_24_characters_", label("a_name_of_24_characters_")));

using pair_of = dict<entry<"lhs", int>, entry<"rhs", double>>;
constexpr pair_of sides{"lhs"_key = 3, "rhs"_key = 4.0};
static_assert(sides["lhs"_key] == 3 && sides["rhs"_key] == 4.0);
static_assert(pair_of::contains<"rhs"> && !pair_of::contains<"output">);

template <class D, fixed_string Key>
concept HasKey = requires(D d) { d[key_type<Key>{}]; };
static_assert(HasKey<pair_of, "lhs">);
static_assert(!HasKey<pair_of, "output">);

// `with` adds an entry, changes an entry's type, or replaces a value; nothing is on the heap.
constexpr auto three = sides.with("bias"_key = 'c');
static_assert(three.size == 3 && three["lhs"_key] == 3 && three["bias"_key] == 'c');
constexpr auto other = sides.with("lhs"_key = true);
static_assert(std::same_as<std::remove_cvref_t<decltype(other)>, dict<entry<"lhs", bool>, entry<"rhs", double>>>);
static_assert(other["lhs"_key] && other["rhs"_key] == 4.0 && sides["lhs"_key] == 3);
static_assert([] {
  auto d = sides;
  d["rhs"_key] = 7.5;
  return d["rhs"_key];
}() == 7.5);
static_assert(std::same_as<decltype(sides["rhs"_key]), const double&>);
static_assert(std::is_trivially_destructible_v<pair_of> && sizeof(pair_of) == 2 * sizeof(double));
static_assert(dict<>::size == 0 && dict().with("a"_key = 1)["a"_key] == 1);

template <fixed_string A, fixed_string B>
concept DictOf = requires { sizeof(dict<entry<A, int>, entry<B, int>>); };
static_assert(DictOf<"a", "b">);

}  // namespace
