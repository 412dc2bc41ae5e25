// Models with layers whose results have data-dependent numbers of rows.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

// Rows with a positive sum.
struct positive_rows {
  constexpr auto forward(auto&, const auto& x) const { return compress(x, reduce_sum<1>(x) > 0); }
};
constexpr auto chosen =
    sequential(positive_rows{}, sublayer<"fc">(nn::linear{.in_features = 3, .out_features = 2}), nn::relu{});
using net_type = model<chosen, input<"N", 3>>;
constexpr auto all = sequential(sublayer<"fc">(nn::linear{.in_features = 3, .out_features = 2}), nn::relu{});

struct found {
  constexpr auto forward(auto&, const auto& x) const { return non_zero(x); }
};
constexpr auto finding = sequential(found{});

const matrix<float> rows{{1, 2, 3}, {-1, -2, 1}, {0, 0, 0}, {4, -1, -2}};
const matrix<float> left{{1, 2, 3}, {4, -1, -2}};

}  // namespace

BOOST_AUTO_TEST_SUITE(counted)

BOOST_AUTO_TEST_CASE(a_model_gives_as_many_rows_as_are_left) {
  net_type net({.seed = 3});
  model<all, input<"N", 3>> after({.seed = 4});
  for (const char* name : {"fc.weight", "fc.bias"})
    after.parameters().find(name)->assign(net.parameters().find(name)->value());
  const auto expected = after(left);
  static_assert(decltype(net(rows))::pattern.rank == 2);
  BOOST_TEST(same_bits(net(rows), expected));
  BOOST_TEST((net(matrix<float>{{-1, 0, 0}}).shape() == shape{0, 2}));
  BOOST_TEST((net(matrix<float>(0, 3)).shape() == shape{0, 2}));
  BOOST_TEST((net(vector<float>{1, 2, 3}).shape() == shape{2}));
  BOOST_TEST(holds(error_of([&] { net(vector<float>{-1, 2, -3}); }),
                   "shape_error: output 0 is [0x2]; a call without the leading dimension returns one row; "
                   "give the inputs all dimensions"));
  model<finding, input<"N", 3>> coordinates;
  const auto at = coordinates(left);
  BOOST_TEST((at.shape() == shape{2, 6}));
  BOOST_TEST(at(0, 5) == 1);
  BOOST_TEST(at(1, 4) == 1);
}

BOOST_AUTO_TEST_CASE(reference_models_copies_and_files_do_so_too) {
  net_type net({.seed = 3});
  const auto expected = net(rows);
  net_type copy(net);
  BOOST_TEST(same_bits(copy(rows), expected));
  copy.core().threads(2);
  BOOST_TEST(same_bits(copy(rows), expected));
  reference_factory<chosen, input<"N", 3>> factory(net);
  auto one = factory.create();
  BOOST_TEST(same_bits(one(rows), expected));
  net_type other({.seed = 5});
  factory.update(other);
  BOOST_TEST(same_bits(one(rows), other(rows)));
  const test_files::folder folder;
  save_net(folder / "counted", net);
  const any_tensor in[] = {rows};
  const auto loaded = load_net(folder / "counted").factory().create()(in);
  BOOST_TEST(same_bits(loaded[0].as<float, extents<dyn, 2>>(), expected));
}

BOOST_AUTO_TEST_CASE(what_takes_one_plan_says_that_there_is_none) {
  net_type net({.seed = 3});
  matrix<float> out(2, 2);
  BOOST_TEST(holds(error_of([&] { net.run(rows, out); }),
                   "non_zero: the extent of its result is known only at run time; the program runs in segments, "
                   "which one plan cannot hold"));
  BOOST_CHECK_THROW(net.run(rows, out), unsupported_error);
  BOOST_TEST(holds(net.explain({rows.shape()}), "segment 2 of 2"));
  model<chosen, input<"T", 3>> stepped({.seed = 3});
  reference_factory<chosen, input<"T", 3>> factory(stepped);
  BOOST_CHECK_THROW(stream(factory.create()), unsupported_error);
  BOOST_TEST(holds(error_of([&] { (void)stream(factory.create()); }),
                   "non_zero: the shape of its result is data-dependent; a stream returns one position per input "
                   "position"));
}

BOOST_AUTO_TEST_SUITE_END()
