// Models in files: what is written, what is taken, and what is said of a file that does not fit.
#include <boost/test/unit_test.hpp>

#include <fcntl.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace nets_test;

namespace {

constexpr auto net_of_squares =
    sequential(sublayer<"conv">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}),
               sublayer<"norm">(nn::batch_norm2d{4}), nn::relu{}, nn::flatten{}, nn::dropout{0.2},
               sublayer<"head">(nn::linear{.in_features = 64, .out_features = 3}));
using net_type = model<net_of_squares, input<"N", 1, 6, 6>>;
using batch = tensor<float, extents<dyn, 1, 6, 6>>;
constexpr auto large = sequential(nn::linear{.in_features = 512, .out_features = 512}, nn::relu{},
                                  nn::linear{.in_features = 512, .out_features = 512});
using large_type = model<large, input<"N", 512>>;

// The tensors of a model's file, for changing them.
struct contents {
  std::vector<named_tensor> tensors;
  explicit contents(const std::string& path) : tensors(read_safetensors(path).tensors) {}
  any_tensor& operator[](std::string_view name) {
    for (auto& t : tensors)
      if (t.name == name) return t.value;
    throw std::runtime_error("no such tensor");
  }
  void write(const std::string& path) const { write_safetensors(path, {tensors.data(), tensors.size()}); }
};

// Loading must fail with these words and leave every bit as it was.
void refuses(net_type& net, const std::string& path, const std::string& words) {
  auto before = net;
  auto said = error_of([&] { load(net, path); });
  BOOST_TEST(holds(said, "file_error: " + path));
  BOOST_TEST(holds(said, words));
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_files)

BOOST_AUTO_TEST_CASE(what_is_saved_is_loaded) {
  test_files::folder dir;
  net_type a({.seed = 1}), b({.seed = 2});
  fit(a, squares(40, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 8});  // running statistics move
  auto x = random_tensor<batch>({5, 1, 6, 6}, 1);
  BOOST_TEST(!same_bits(a(x), b(x)));
  save(a, dir / "net.safetensors");
  load(b, dir / "net.safetensors");
  BOOST_TEST(same_bits(a(x), b(x)));
  BOOST_TEST(dir.count() == 1);
  // Parameters and running statistics, and nothing of the training.
  auto file = read_safetensors(dir / "net.safetensors");
  BOOST_TEST(file.tensors.size() == 8u);
  BOOST_TEST(file.find("norm.running_var"));
  // A file that the model reads may be replaced by the model.
  save(b, dir / "net.safetensors");
  load(a, dir / "net.safetensors");
  BOOST_TEST(same_bits(a(x), b(x)));
}

BOOST_AUTO_TEST_CASE(a_trained_model_takes_a_file_again) {
  test_files::folder dir;
  net_type a({.seed = 1});
  auto x = random_tensor<batch>({5, 1, 6, 6}, 1);
  auto before = a(x);
  save(a, dir / "net.safetensors");
  fit(a, squares(40, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 8});
  BOOST_TEST(!same_bits(a(x), before));
  load(a, dir / "net.safetensors");
  BOOST_TEST(same_bits(a(x), before));
}

BOOST_AUTO_TEST_CASE(files_that_do_not_fit) {
  test_files::folder dir;
  net_type net({.seed = 1}), other({.seed = 2});
  save(other, dir / "good");

  contents missing(dir / "good");
  std::erase_if(missing.tensors, [](const auto& t) { return t.name == "norm.running_mean"; });
  missing.write(dir / "missing");
  refuses(net, dir / "missing", ": parameter `norm.running_mean` is missing");

  contents extra(dir / "good");
  extra.tensors.push_back({"head.scale", extra["head.bias"]});
  extra.write(dir / "extra");
  refuses(net, dir / "extra", ": parameter `head.scale` is in the file, but the model has none of this name");

  contents shaped(dir / "good");
  shaped["head.weight"] = any_tensor(tensor_type{dtype::float32, shape{64, 3}});
  shaped.write(dir / "shaped");
  refuses(net, dir / "shaped", ": parameter `head.weight` is ");
  refuses(net, dir / "shaped", "[64x3] and the model expects ");

  contents typed(dir / "good");
  typed["head.weight"] = any_tensor(tensor_type{dtype::float64, shape{3, 64}});
  typed.write(dir / "typed");
  refuses(net, dir / "typed", ": parameter `head.weight` is ");
  refuses(net, dir / "typed", " and the model expects ");

  const auto bytes = test_files::read_raw(dir / "good");
  for (std::size_t n : {std::size_t(0), std::size_t(7), std::size_t(100), bytes.size() / 2, bytes.size() - 1}) {
    test_files::write_raw(dir / "truncated", std::string_view(bytes).substr(0, n));
    refuses(net, dir / "truncated", ": ");
  }
  refuses(net, dir / "absent", ": cannot be read: No such file or directory");
  BOOST_TEST(error_of([&] { load(net, "net.safetensors"); }) ==
             "file_error: net.safetensors: cannot be read: No such file or directory");
  load(net, dir / "good");
  BOOST_TEST(same_bits(net.parameters(), other.parameters()));
}

// PyTorch writes how many batches a batch norm has seen, as an int64 scalar beside its statistics.
BOOST_AUTO_TEST_CASE(counters_of_batches_are_passed_over) {
  test_files::folder dir;
  net_type net({.seed = 1}), other({.seed = 2});
  save(other, dir / "good");
  const any_tensor count(tensor_type{dtype::int64, shape{}});
  auto with = [&](const std::string& name, const any_tensor& v) {
    contents c(dir / "good");
    c.tensors.push_back({name, v});
    c.write(dir / "counted");
  };
  const std::string more = " is in the file, but the model has none of this name";
  for (const std::string name : {"head.num_batches_tracked", "num_batches_tracked", "other.num_batches_tracked",
                                 "norm.num_batches", "norm.num_batches_tracked.x"}) {
    with(name, count);
    refuses(net, dir / "counted", ": parameter `" + name + "`" + more);
  }
  for (const tensor_type& type :
       {tensor_type{dtype::int32, {}}, tensor_type{dtype::int64, shape{1}}, tensor_type{dtype::float32, {}}}) {
    with("norm.num_batches_tracked", any_tensor(type));
    refuses(net, dir / "counted", ": parameter `norm.num_batches_tracked`" + more);
  }
  with("norm.num_batches_tracked", count);
  load(net, dir / "counted");
  BOOST_TEST(same_bits(net.parameters(), other.parameters()));
}

// A file that another program writes in place meanwhile, cut and filled again: an error or values, never a signal.
BOOST_AUTO_TEST_CASE(a_file_that_is_cut_while_it_is_read) {
  test_files::folder dir;
  large_type net({.seed = 1});
  const std::string path = dir / "net.safetensors";
  save(net, path);
  const std::string bytes = test_files::read_raw(path);
  std::atomic<bool> done{false};
  std::thread other([&] {
    const int file = ::open(path.c_str(), O_WRONLY);
    while (!done) {
      if (::ftruncate(file, 0) != 0 || ::pwrite(file, bytes.data(), bytes.size(), 0) < 0) break;
    }
    ::close(file);
  });
  int good = 0, refused = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (std::chrono::steady_clock::now() < end) {
    try {
      load(net, path);
      ++good;
    } catch (const file_error&) { ++refused; }
  }
  done = true;
  other.join();
  BOOST_TEST(good + refused > 0);
  test_files::write_raw(path, bytes);
  load(net, path);
}

BOOST_AUTO_TEST_SUITE_END()
