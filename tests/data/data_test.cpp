// Data sets of images: shapes, normalization, batches, shards, and the files of Fashion-MNIST.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "files.h"

import lamina;

using namespace lamina;
using test_files::idx;
using test_files::says;

double sum_of_shard(const image_dataset& data, int worker, int workers, long long& labels);
int count_of(const image_dataset& data);

namespace {

// Three images of [1 x 2 x 2] with the bytes 0, 1, 2, ... times 20.
image_dataset small(normalization n = {}) {
  image_dataset::images_type images(3, 1, 2, 2);
  auto out = images.writable();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::uint8_t>(20 * i);
  return {images, vector<std::int64_t>{2, 0, 1}, {"a", "b", "c"}, n};
}

// Writes `n` images of a part of Fashion-MNIST; all bytes of an image are its index.
void write_part(const test_files::folder& dir, const std::string& prefix, unsigned n, bool gzip, unsigned height = 28,
                char label = 0, int missing = 0) {
  std::string pixels, labels;
  for (unsigned i = 0; i < n; ++i) {
    pixels.append(height * 28, static_cast<char>(i));
    labels += label ? label : static_cast<char>(i % 10);
  }
  auto write = gzip ? test_files::write_gzip : test_files::write_raw;
  std::string end = gzip ? ".gz" : "";
  labels.resize(n - static_cast<unsigned>(missing));
  write(dir / (prefix + "-images-idx3-ubyte" + end), idx(8, {n, height, 28}, pixels));
  write(dir / (prefix + "-labels-idx1-ubyte" + end), idx(8, {n - static_cast<unsigned>(missing)}, labels));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(data_sets)

BOOST_AUTO_TEST_CASE(images_come_normalized_and_with_their_label) {
  auto plain = small();
  BOOST_CHECK_EQUAL(plain.size(), 3);
  BOOST_CHECK(plain.image_shape() == (shape{1, 2, 2}));
  BOOST_CHECK_EQUAL(plain.class_names()[2], "c");
  auto image = plain.image(1);
  BOOST_CHECK(image.shape() == (shape{1, 2, 2}));
  BOOST_CHECK_EQUAL(image(0, 0, 1), 100 / 255.0f);
  BOOST_CHECK_EQUAL(plain.label(1), 0);
  BOOST_CHECK_EQUAL(plain[2].label, 1);
  auto scaled = small({.mean = 0.5, .deviation = 0.25});
  BOOST_CHECK_EQUAL(scaled.image(0)(0, 0, 0), -2.0f);
  BOOST_CHECK_CLOSE(float(scaled.image(1)(0, 0, 1)), (100 / 255.0f - 0.5f) / 0.25f, 1e-4f);
}

BOOST_AUTO_TEST_CASE(a_batch_is_the_images_of_its_indices) {
  auto data = small();
  std::vector<float> images(12, -1);
  std::vector<std::int64_t> labels(3, -1);
  data.batch({2, 0, 2}, images.data(), labels.data());
  BOOST_CHECK((labels == std::vector<std::int64_t>{1, 2, 1}));
  for (std::size_t k = 0; k < 3; ++k) {
    auto image = data.image(k == 1 ? 0 : 2);
    for (std::size_t i = 0; i < 4; ++i) BOOST_CHECK_EQUAL(images[4 * k + i], image.data()[i]);
  }
  BOOST_CHECK_EXCEPTION(data.batch({0, 3}, images.data(), labels.data()), value_error,
                        (says{{"index 3 is outside 0..2"}}));
  BOOST_CHECK_THROW(data.image(-1), value_error);
  BOOST_CHECK_EQUAL(labels[0], 1);
}

BOOST_AUTO_TEST_CASE(a_data_set_refuses_parts_that_do_not_fit) {
  image_dataset::images_type images(2, 1, 2, 2);
  using labels = vector<std::int64_t>;
  std::vector<std::string> names{"a", "b"};
  BOOST_CHECK_EXCEPTION(image_dataset(images, labels{1}, names), shape_error, (says{{"2 images and 1 labels"}}));
  BOOST_CHECK_EXCEPTION(image_dataset(images, (labels{0, 2}), names), value_error,
                        (says{{"label 1 is 2, and there are 2 classes"}}));
  BOOST_CHECK_EXCEPTION(image_dataset(images, (labels{0, -1}), names), value_error, (says{{"label 1 is -1"}}));
  BOOST_CHECK_EXCEPTION(image_dataset(images, (labels{0, 1}), names, {.deviation = 0}), value_error,
                        (says{{"deviation"}}));
}

BOOST_AUTO_TEST_CASE(shards_see_every_example_once) {
  auto data = small();
  for (int workers = 1; workers <= 5; ++workers) {
    std::vector<int> seen(3);
    std::int64_t total = 0;
    for (int w = 0; w < workers; ++w) {
      auto part = shard(data, w, workers);
      total += part.size();
      for (auto [image, label] : part) ++seen[static_cast<std::size_t>(label)];
    }
    BOOST_CHECK((seen == std::vector<int>{1, 1, 1}));
    BOOST_CHECK_EQUAL(total, 3);
  }
  long long labels = 0;
  double all = 0;
  for (auto [image, label] : data)
    for (float x : image.data()) all += static_cast<double>(x);
  double first = sum_of_shard(data, 0, 2, labels);
  BOOST_CHECK_EQUAL(labels, 21);
  BOOST_CHECK_CLOSE(first + sum_of_shard(data, 1, 2, labels), all, 1e-9);
  BOOST_CHECK_EXCEPTION(shard(data, 2, 2), value_error, (says{{"worker 2 of 2; workers count from 0"}}));
  BOOST_CHECK_THROW(shard(data, -1, 2), value_error);
  BOOST_CHECK_THROW(shard(data, 0, 0), value_error);
}

BOOST_AUTO_TEST_CASE(a_shard_holds_the_data_set_it_came_from) {
  int n = 0;
  for (auto [image, label] : shard(small(), 1, 2)) n += label == 0 && image.size() == 4;
  BOOST_CHECK_EQUAL(n, 1);
}

BOOST_AUTO_TEST_CASE(fashion_mnist_is_read_plain_and_compressed) {
  for (bool gzip : {false, true}) {
    test_files::folder dir;
    write_part(dir, "train", 12, gzip);
    write_part(dir, "t10k", 5, gzip);
    auto train = datasets::fashion_mnist(data_split::train, dir.path.string()),
         test = datasets::fashion_mnist(data_split::test, dir.path.string());
    BOOST_CHECK_EQUAL(train.size(), 12);
    BOOST_CHECK_EQUAL(test.size(), 5);
    BOOST_CHECK(train.image_shape() == (shape{1, 28, 28}));
    BOOST_CHECK_EQUAL(train.image(11)(0, 27, 27), 11 / 255.0f);
    BOOST_CHECK_EQUAL(train.label(11), 1);
    BOOST_CHECK_EQUAL(train.class_names().size(), 10u);
    BOOST_CHECK_EQUAL(train.class_names()[9], "Ankle boot");
    BOOST_CHECK_EQUAL(count_of(test), 5);
  }
}

BOOST_AUTO_TEST_CASE(missing_data_says_in_one_sentence_how_to_get_it) {
  test_files::folder dir;
  auto missing = [&] { datasets::fashion_mnist(data_split::test, dir.path.string()); };
  BOOST_CHECK_EXCEPTION(missing(), file_error,
                        (says{{"there is no t10k-images-idx3-ubyte.gz in " + dir.path.string(),
                               "`apt-get install dataset-fashion-mnist`", "--data DIR"}}));
  BOOST_CHECK_EXCEPTION(missing(), file_error,
                        [](const file_error& e) { return std::string(e.what()).find('\n') == std::string::npos; });
}

BOOST_AUTO_TEST_CASE(files_that_do_not_fit_each_other_are_told) {
  test_files::folder dir;
  auto read = [&] { datasets::fashion_mnist(data_split::train, dir.path.string()); };
  write_part(dir, "train", 4, false, 28, 0, 1);
  BOOST_CHECK_EXCEPTION(read(), file_error, (says{{"train-labels-idx1-ubyte: expected 4 labels", "got 3"}}));
  write_part(dir, "train", 4, false, 28, 10);
  BOOST_CHECK_EXCEPTION(read(), file_error, (says{{"train-labels-idx1-ubyte: expected label 0 below 10; got 10"}}));
  write_part(dir, "train", 4, false, 27);
  BOOST_CHECK_EXCEPTION(read(), file_error,
                        (says{{"train-images-idx3-ubyte: expected images of [28x28]; got [1x27x28]"}}));
  write_part(dir, "train", 4, false);
  test_files::write_raw(dir / "train-images-idx3-ubyte", idx(8, {4}, "1234"));
  BOOST_CHECK_EXCEPTION(read(), file_error, (says{{"expected uint8 images of rank 3 or 4; got uint8[4]"}}));
  write_part(dir, "train", 4, false);
  test_files::write_raw(dir / "train-labels-idx1-ubyte", idx(12, {1}, "1234"));
  BOOST_CHECK_EXCEPTION(read(), file_error, (says{{"expected uint8 labels of rank 1; got int32[1]"}}));
  write_part(dir, "train", 0, false);
  BOOST_CHECK_EXCEPTION(read(), file_error, (says{{"train-images-idx3-ubyte: expected at least one image; got none"}}));
  test_files::write_raw(dir / "train-images-idx3-ubyte", "PK\3\4 not an idx file");
  BOOST_CHECK_EXCEPTION(read(), file_error, (says{{"train-images-idx3-ubyte: magic number"}}));
}

BOOST_AUTO_TEST_SUITE_END()
