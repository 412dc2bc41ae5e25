// Policies: one type for every spelling, inheritance by sublayers, and lookup by a run-time path.
#include <boost/test/unit_test.hpp>

#include <string>
#include <type_traits>
#include <vector>

import lamina;

using namespace lamina;

namespace user {
struct dropout_rate {
  double p = 0.5;
};  // a user-defined policy needs no registration
}  // namespace user

namespace {

using set = policies<trainable(true), element<double>, sub<"dot">(trainable(false), user::dropout_rate(0.1))>;

// ---- canonical form
static_assert(std::is_same_v<
              set, policies<sub<"dot">(user::dropout_rate(0.1), trainable(false)), element<double>, trainable(true)>>);
static_assert(std::is_same_v<policies<trainable(false), trainable(false)>, policies<trainable(false)>>);
static_assert(!std::is_same_v<policies<trainable(false)>, policies<trainable(true)>>);
static_assert(!std::is_same_v<policies<element<float>>, policies<element<double>>>);
static_assert(std::is_same_v<policies<sub<"a">(sub<"b">(trainable(false), feedback(true)))>,
                             policies<sub<"a">(sub<"b">(feedback(true), trainable(false)))>>);
static_assert(!std::is_same_v<policies<sub<"a">(trainable(false))>, policies<sub<"b">(trainable(false))>>);
// several entries for one sublayer are merged
static_assert(std::is_same_v<
              policies<sub<"a">(trainable(false)), use_bias(true), sub<"a">(feedback(true)), sub<"b">(trainable(true))>,
              policies<use_bias(true), sub<"a">(feedback(true), trainable(false)), sub<"b">(trainable(true))>>);
static_assert(std::is_same_v<policies<sub<"a">(sub<"b">(trainable(false))),
                                      sub<"a">(feedback(true), sub<"b">(use_bias(false))), sub<"a">(feedback(true))>,
                             policies<sub<"a">(feedback(true), sub<"b">(trainable(false), use_bias(false)))>>);
static_assert(std::is_same_v<policies<sub<"a">(sub<"b">(trainable(false)), sub<"b">(use_bias(false)))>,
                             policies<sub<"a">(sub<"b">(use_bias(false), trainable(false)))>>);
static_assert(std::is_same_v<policies<trainable(true)>::change<sub<"a">(trainable(false)), sub<"a">(use_bias(false))>,
                             policies<trainable(true), sub<"a">(trainable(false), use_bias(false))>>);

// ---- asking a set
static_assert(set::has<trainable> && !set::has<feedback>);
static_assert(set::get<trainable>().value && std::is_same_v<decltype(set::get<element_kind>())::type, double>);
static_assert(policies<>::get<trainable>().value && !policies<>::get<feedback>().value);
static_assert(policies<>::get<user::dropout_rate>().p == 0.5);
static_assert(std::is_same_v<decltype(policies<>::get<element_kind>())::type, float>);

// ---- inheritance
using dot = set::for_sublayer<"dot">;
static_assert(std::is_same_v<dot, policies<user::dropout_rate(0.1), trainable(false), element<double>>>);
static_assert(std::is_same_v<set::for_sublayer<"other">, policies<trainable(true), element<double>>>);
using deep = policies<feedback(true), sub<"body">(trainable(false), sub<"first">(trainable(true)))>;
static_assert(!deep::for_sublayer<"body">::get<trainable>().value);
static_assert(deep::for_sublayer<"body">::for_sublayer<"first">::get<trainable>().value);
static_assert(!deep::for_sublayer<"body">::for_sublayer<"second">::get<trainable>().value);
static_assert(deep::for_sublayer<"body">::for_sublayer<"first">::get<feedback>().value);
static_assert(deep::for_sublayer<"first">::get<trainable>().value);  // `first` at the top is not `body.first`
static_assert(!policies<sub<"a">(sub<"b">(trainable(false)))>::for_sublayer<"a">::has<trainable>);

// ---- the table of inheritance: own entry first, then the parent's plain ones; entries for others are dropped
using parent = policies<trainable(true), use_bias(false), element<double>,
                        sub<"a">(trainable(false), sub<"b">(keepdim(true))), sub<"c">(use_bias(true))>;
template <class Set, class Expected> inline constexpr bool is = std::is_same_v<Set, Expected>;
static_assert(is<parent::for_sublayer<"a">,
                 policies<trainable(false), use_bias(false), element<double>, sub<"b">(keepdim(true))>>);
static_assert(is<parent::for_sublayer<"c">, policies<trainable(true), use_bias(true), element<double>>>);
static_assert(is<parent::for_sublayer<"x">, policies<trainable(true), use_bias(false), element<double>>>);
static_assert(is<parent::for_sublayer<"b">, policies<trainable(true), use_bias(false), element<double>>>);
static_assert(is<parent::for_sublayer<"a">::for_sublayer<"b">,
                 policies<trainable(false), use_bias(false), element<double>, keepdim(true)>>);
static_assert(
    is<parent::for_sublayer<"a">::for_sublayer<"c">, policies<trainable(false), use_bias(false), element<double>>>);
static_assert(is<policies<>::for_sublayer<"a">, policies<>>);

// ---- changing, picking, the plain part
static_assert(is<parent::change<trainable(false)>::for_sublayer<"x">,
                 policies<trainable(false), use_bias(false), element<double>>>);
static_assert(is<policies<trainable(true)>::change<element<double>>, policies<element<double>, trainable(true)>>);
static_assert(is<policies<trainable(true)>::change<element<double>, trainable(false)>,
                 policies<element<double>, trainable(false)>>);
static_assert(
    is<policies<sub<"a">(trainable(true))>::change<sub<"a">(use_bias(true))>, policies<sub<"a">(use_bias(true))>>);
static_assert(is<without_subs<parent>, policies<trainable(true), use_bias(false), element<double>>>);
static_assert(is<without_subs<policies<sub<"a">(trainable(true))>>, policies<>>);
static_assert(parent::has<use_bias> && !parent::has<keepdim> && !parent::get<use_bias>().value);

// ---- every kind and its default
static_assert(policies<>::get<use_bias>().value && !policies<>::get<keepdim>().value && policies<>::get<bptt>().value);
static_assert(policies<>::get<axis_count>().value == 1 && policies<>::get<axes>() == axes());
static_assert(policies<axes(0, 2)>::get<axes>() == axes(0, 2) && !policies<bptt(false)>::get<bptt>().value);
static_assert(policies<>::get<device_kind>().name == "cpu" &&
              policies<device<"cpu">>::get<device_kind>().name == "cpu");
static_assert(policies<>::get<random_engine_kind>().name == "philox" && policies<random_engine<"philox">>::size == 1);
using walked = policies<sequence<"input", 0>, sequence<"mask", 1>>;
static_assert(walked::get<sequence_kind<"mask">>().axis == 1 && !walked::get<sequence_kind<"state">>().given);
static_assert(is<walked, policies<sequence<"mask", 1>, sequence<"input", 0>>>);
using acting = policies<activation(nn::tanh{}), initialize<"weight">(initializer::xavier_uniform())>;
static_assert(acting::has<activation_kind> && std::is_same_v<decltype(acting::get<activation_kind>().value), nn::tanh>);
static_assert(acting::get<initializer_kind<"weight">>().value == initializer::xavier_uniform());
static_assert(!acting::get<initializer_kind<"bias">>().given);
static_assert(!is<policies<activation(nn::tanh{})>, policies<activation(nn::relu{})>>);

// ---- policies that differ in type, by a path known as a value
constexpr label one_name[] = {"a"};
constexpr auto size_of_activation = [](auto p) { return requires { p.value; } ? 1 : 0; };
static_assert(policies<sub<"a">(activation(nn::tanh{}))>::visit<activation_kind>(view<const label>(one_name),
                                                                                 size_of_activation) == 1);
static_assert(policies<sub<"a">(activation(nn::tanh{}))>::visit<activation_kind>(view<const label>(),
                                                                                 size_of_activation) == 0);
static_assert(policies<activation(nn::tanh{}), sub<"a">(trainable(true))>::visit<activation_kind>(
                  view<const label>(one_name), size_of_activation) == 1);

// ---- lookup by a path known as a value
template <class Set> constexpr bool updates(std::initializer_list<label> path) {
  return Set::template value_at<trainable>(view<const label>(path));
}
static_assert(updates<deep>({}) && !updates<deep>({"body"}) && updates<deep>({"body", "first"}));
static_assert(!updates<deep>({"body", "second"}) && !updates<deep>({"body", "second", "x"}) &&
              updates<deep>({"other", "first"}));
static_assert(updates<policies<>>({"a", "b"}));
constexpr label dot_path[] = {"dot"};
static_assert(set::at<user::dropout_rate>(view<const label>(dot_path)).p == 0.1);
static_assert(set::at<user::dropout_rate>(view<const label>()).p == 0.5);
constexpr auto bytes = [](auto p) { return sizeof(typename decltype(p)::type); };
using mixed = policies<sub<"head">(element<double>)>;
constexpr label head_path[] = {"head", "fc"}, body_path[] = {"body"};
static_assert(mixed::at<element_kind>(view<const label>(head_path), bytes) == 8);
static_assert(mixed::at<element_kind>(view<const label>(body_path), bytes) == 4);

}  // namespace

BOOST_AUTO_TEST_SUITE(policy)

BOOST_AUTO_TEST_CASE(a_path_made_at_run_time_finds_what_the_type_says) {
  std::vector<label> path;
  BOOST_TEST(deep::value_at<trainable>(path));
  path.emplace_back(std::string("body"));
  BOOST_TEST(!deep::value_at<trainable>(path));
  path.emplace_back(std::string("first"));
  BOOST_TEST(deep::value_at<trainable>(path));
  path.back() = label("second");
  BOOST_TEST(!deep::value_at<trainable>(path));
}

BOOST_AUTO_TEST_CASE(sublayers_with_entries_of_their_own_are_listed) {
  std::string names;
  policies<sub<"b">(trainable(false)), trainable(true), sub<"a">(feedback(true))>::each_sub(
      [&](auto name, auto inner) { names += std::string(name) + (inner.size == 1 ? "1 " : "? "); });
  BOOST_TEST((names == "a1 b1 " || names == "b1 a1 "));
}

BOOST_AUTO_TEST_SUITE_END()
