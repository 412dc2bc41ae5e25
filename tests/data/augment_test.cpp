// Image augmentations: small examples, and invariants of random ones.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using engine_test::message_of;
using picture = picture_tensor<float>;
using bytes = picture_tensor<std::uint8_t>;

namespace {

// Pixels 1, 2, 3, ...
template <class P = picture> P counted(std::int64_t channels, std::int64_t height, std::int64_t width) {
  P x(channels, height, width);
  auto to = x.writable();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<typename P::element_type>(i + 1);
  return x;
}
template <class P> std::vector<double> values(const P& x) {
  std::vector<double> all;
  for (auto v : x.data()) all.push_back(static_cast<double>(v));
  return all;
}
void is(const std::vector<double>& found, const std::vector<double>& expected) {
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_augment)

BOOST_AUTO_TEST_CASE(crops_and_flips_move_pixels) {
  const auto x = counted(1, 3, 3);
  is(values(augment::center_crop(x, {.height = 1, .width = 3})), {4, 5, 6});
  is(values(augment::center_crop(x, {.height = 1, .width = 5, .padding = 1})), {0, 4, 5, 6, 0});
  is(values(augment::flip_horizontal(counted<bytes>(2, 1, 2))), {2, 1, 4, 3});
  is(values(augment::flip_vertical(counted(1, 2, 2))), {3, 4, 1, 2});
  BOOST_CHECK_EQUAL(message_of([&] { augment::center_crop(x, {.height = 4, .width = 1}); }),
                    "augment::center_crop: crop 4x1 of image [1x3x3] with padding 0; expected a crop within the "
                    "padded image");
  BOOST_CHECK_EQUAL(message_of([&] { augment::center_crop(x, {}); }),
                    "augment::center_crop: height is 0; expected at least 1");
}

BOOST_AUTO_TEST_CASE(random_crops_reach_each_place_alike) {
  const auto x = counted(1, 3, 3);
  std::vector<int> found(10);
  for (std::int64_t i = 0; i < 9000; ++i)
    ++found[static_cast<std::size_t>(augment::random_crop(x, {.height = 1, .width = 1}, {1, 0, i})(0, 0, 0))];
  for (std::size_t k = 1; k < 10; ++k) {
    BOOST_CHECK_GT(found[k], 850);
    BOOST_CHECK_LT(found[k], 1150);
  }
  is(values(augment::random_crop(x, {.height = 2, .width = 2, .padding = 1}, {1, 2, 3})),
     values(augment::random_crop(x, {.height = 2, .width = 2, .padding = 1}, {1, 2, 3})));
  int flipped = 0;
  for (std::int64_t i = 0; i < 1000; ++i) flipped += augment::random_flip(x, {1, 0, i})(0, 0, 0) == 3;
  BOOST_CHECK_GT(flipped, 430);
  BOOST_CHECK_LT(flipped, 570);
}

BOOST_AUTO_TEST_CASE(rotations_of_quarters_are_exact) {
  const auto x = counted(1, 3, 3);
  is(values(augment::rotate(x, 0)), values(x));
  is(values(augment::rotate(x, 90)), {3, 6, 9, 2, 5, 8, 1, 4, 7});  // counterclockwise
  is(values(augment::rotate(counted<bytes>(1, 3, 3), -180)), {9, 8, 7, 6, 5, 4, 3, 2, 1});
  const auto turned = augment::rotate(x, 45);
  BOOST_CHECK_EQUAL(turned(0, 1, 1), 5);
  BOOST_CHECK(values(augment::random_rotation(x, 10, {1, 0, 0})) != values(augment::random_rotation(x, 10, {1, 0, 1})));
}

BOOST_AUTO_TEST_CASE(resizing_is_bilinear) {
  picture x(1, 1, 2);
  x.writable()[1] = 4;
  is(values(augment::resize(x, 1, 4)), {0, 1, 3, 4});
  is(values(augment::resize(x, 2, 1)), {2, 2});
  is(values(augment::resize(counted<bytes>(1, 2, 2), 2, 2)), {1, 2, 3, 4});
}

BOOST_AUTO_TEST_CASE(colors_change_by_strength) {
  picture x(3, 1, 2);
  for (auto& v : x.writable()) v = 0.5f;
  x.writable()[0] = 0.25f;
  is(values(augment::color_jitter(x, {}, {1, 0, 0})), values(x));
  const auto bright = augment::color_jitter(x, {.brightness = 0.5f}, {1, 0, 0});
  const float b = bright(0, 0, 1) / 0.5f;
  BOOST_CHECK(b >= 0.5f && b <= 1.5f && b != 1);
  BOOST_CHECK_CLOSE(bright(0, 0, 0), 0.25f * b, 1e-4f);
  // Contrast keeps the mean of luminance, saturation the luminance of each pixel.
  const auto luminance = [](const picture& p, int i) {
    return 0.299f * p(0, 0, i) + 0.587f * p(1, 0, i) + 0.114f * p(2, 0, i);
  };
  const auto contrast = augment::color_jitter(x, {.contrast = 0.5f}, {1, 0, 0});
  BOOST_CHECK_CLOSE(luminance(contrast, 0) + luminance(contrast, 1), luminance(x, 0) + luminance(x, 1), 1e-3f);
  BOOST_CHECK(values(contrast) != values(x));
  const auto saturated = augment::color_jitter(x, {.saturation = 0.5f}, {1, 0, 0});
  BOOST_CHECK_CLOSE(luminance(saturated, 0), luminance(x, 0), 1e-3f);
  BOOST_CHECK(values(saturated) != values(x));
  is(values(augment::normalize(counted(2, 1, 2), {1.f, 3.f}, {1.f, 0.5f})), {0, 1, 0, 2});
  BOOST_CHECK_THROW(augment::normalize(x, {0.f}, {1.f}), shape_error);
  BOOST_CHECK_THROW(augment::normalize(x, {0.f, 0.f, 0.f}, {1.f, 0.f, 1.f}), value_error);
}

BOOST_AUTO_TEST_CASE(cutout_clears_a_square) {
  const auto x = counted(2, 8, 8);
  std::set<std::size_t> counts;
  for (std::int64_t i = 0; i < 200; ++i) {
    const auto cut = values(augment::cutout(x, 4, {1, 0, i}));
    std::size_t zeros = 0;
    for (std::size_t k = 0; k < cut.size(); ++k) {
      zeros += cut[k] == 0;
      BOOST_REQUIRE(cut[k] == 0 || cut[k] == static_cast<double>(k + 1));
    }
    counts.insert(zeros);
  }
  BOOST_CHECK_EQUAL(*counts.rbegin(), 32u);  // top left corner
  BOOST_CHECK_EQUAL(*counts.begin(), 8u);    // in the corner of the top and the left
}

BOOST_AUTO_TEST_CASE(mixtures_keep_shares) {
  augment::mixed_batch b{tensor<float, extents<dyn, dyn, dyn, dyn>>(4, 1, 6, 5), matrix<float>(4, 4)};
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < 30; ++k) b.images.writable()[30 * i + k] = static_cast<float>(i);
    b.targets.writable()[4 * i + i] = 1;
  }
  for (std::int64_t at = 0; at < 20; ++at)
    for (const auto& m : {augment::mixup(b, {1, 0, at}), augment::cutmix(b, {1, 0, at})})
      for (int i = 0; i < 4; ++i) {
        float expected = 0, mean = 0, all = 0;
        for (int c = 0; c < 4; ++c) {
          expected += m.targets(i, c) * static_cast<float>(c);
          all += m.targets(i, c);
        }
        for (int k = 0; k < 30; ++k) mean += m.images.data()[static_cast<std::size_t>(30 * i + k)] / 30;
        BOOST_CHECK_SMALL(all - 1, 1e-5f);
        BOOST_CHECK_SMALL(mean - expected, 1e-4f);
      }
  is(values(augment::cutmix(b, {1, 0, 7}).images), values(augment::cutmix(b, {1, 0, 7}).images));
  BOOST_CHECK(values(augment::mixup(b, {1, 0, 7}).images) != values(augment::mixup(b, {1, 0, 8}).images));
  BOOST_CHECK_THROW(augment::mixup({b.images, matrix<float>(3, 4)}, {}), shape_error);
}

BOOST_AUTO_TEST_SUITE_END()
