// Models in files: contents, loading options, and errors for files that do not match.
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

// The tensors of a model's file, to be modified.
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

// Expects a load to fail with these words and to leave every bit unchanged.
void refuses(net_type& net, const std::string& path, const std::string& expected) {
  auto before = net;
  auto message = error_of([&] { load(net, path); });
  BOOST_TEST(holds(message, "file_error: " + path));
  BOOST_TEST(holds(message, expected));
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_files)

BOOST_AUTO_TEST_CASE(what_is_saved_is_loaded) {
  test_files::folder dir;
  net_type a({.seed = 1}), b({.seed = 2});
  fit(a, squares(40, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 8});  // changes running statistics
  auto x = random_tensor<batch>({5, 1, 6, 6}, 1);
  BOOST_TEST(!same_bits(a(x), b(x)));
  save(a, dir / "net.safetensors");
  load(b, dir / "net.safetensors");
  BOOST_TEST(same_bits(a(x), b(x)));
  BOOST_TEST(dir.count() == 1);
  // Parameters and running statistics only; nothing of the training.
  auto file = read_safetensors(dir / "net.safetensors");
  BOOST_TEST(file.tensors.size() == 8u);
  BOOST_TEST(file.find("norm.running_var"));
  // A model may save over the file that it was loaded from.
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
  refuses(net, dir / "shaped", "[64x3]; expected ");

  contents typed(dir / "good");
  typed["head.weight"] = any_tensor(tensor_type{dtype::float64, shape{3, 64}});
  typed.write(dir / "typed");
  refuses(net, dir / "typed", ": parameter `head.weight` is ");
  refuses(net, dir / "typed", "; expected ");

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

// PyTorch stores the number of batches that a batch norm has seen, as an int64 scalar beside its statistics.
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

// ---- files of other models ------------------------------------------------------------------------------------------

// `net_of_squares` with renamed layers and another head.
constexpr auto pretrained = sequential(sublayer<"c">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}),
                                       sublayer<"n">(nn::batch_norm2d{4}), nn::relu{}, nn::flatten{}, nn::dropout{0.2},
                                       sublayer<"head">(nn::linear{.in_features = 64, .out_features = 7}));
using pretrained_type = model<pretrained, input<"N", 1, 6, 6>>;
using strings = std::vector<std::string>;

bool has_bits_of(const parameter_store& a, std::string_view name, const parameter_store& b, std::string_view other) {
  const any_tensor &x = a.find(name)->value(), &y = b.find(other)->value();
  return x.type() == y.type() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

BOOST_AUTO_TEST_CASE(renamed_and_partial) {
  test_files::folder dir;
  pretrained_type from({.seed = 3});
  fit(from, squares(40, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 8});
  save(from, dir / "f");
  net_type net({.seed = 1});
  const auto before = net;
  load_options o{.renames = {{"c.*", "conv.*"}, {"n.*", "norm.*"}}};
  // Strict by default: the head has another shape.
  const auto refused = error_of([&] { load(net, dir / "f", o); });
  BOOST_TEST(holds(refused,
                   "parameter `head.weight` is float32[7x64]; expected float32[3x64]; in total "
                   "0 are missing, 2 have another shape or type, and 0 are unexpected; 6 fit"));
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  o.allow_mismatched = true;
  const load_report seen = compare_states(net, dir / "f", o);
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  const load_report made = load(net, dir / "f", o);
  for (const auto* r : {&seen, &made}) {
    BOOST_TEST(r->loaded == (strings{"conv.weight", "conv.bias", "norm.running_mean", "norm.running_var", "norm.weight",
                                     "norm.bias"}),
               boost::test_tools::per_element());
    BOOST_TEST(r->missing.empty());
    BOOST_TEST(r->unexpected.empty());
    BOOST_REQUIRE(r->mismatched.size() == 2u);
    BOOST_TEST(r->print() ==
               "mismatched: head.weight is float32[7x64] in the file and float32[3x64] in the model\n"
               "mismatched: head.bias is float32[7] in the file and float32[3] in the model\n");
  }
  const auto &now = net.parameters(), &then = from.parameters();
  BOOST_TEST(has_bits_of(now, "conv.weight", then, "c.weight"));
  BOOST_TEST(has_bits_of(now, "norm.running_var", then, "n.running_var"));
  BOOST_TEST(has_bits_of(now, "head.weight", before.parameters(), "head.weight"));
  BOOST_TEST(has_bits_of(now, "head.bias", before.parameters(), "head.bias"));
  // Results use the new weights: also through the executor that is already bound.
  auto x = random_tensor<batch>({2, 1, 6, 6}, 1);
  BOOST_TEST(!same_bits(net(x), net_type(before)(x)));
}

BOOST_AUTO_TEST_CASE(missing_and_unexpected) {
  test_files::folder dir;
  pretrained_type from({.seed = 3});
  save(from, dir / "f");
  net_type net({.seed = 1});
  const auto before = net;
  const load_options rest{.allow_missing = true, .allow_unexpected = true, .allow_mismatched = true};
  const auto without = [&](bool load_options::* one) {
    load_options o = rest;
    o.*one = false;
    return error_of([&] { load(net, dir / "f", o); });
  };
  BOOST_TEST(holds(without(&load_options::allow_missing), "`conv.weight` is missing; in total 6 are missing"));
  BOOST_TEST(holds(
      without(&load_options::allow_unexpected),
      "is in the file, but the model has none of this name; in total 0 are missing, 0 have another shape or type, "
      "and 6 are unexpected"));
  BOOST_TEST(holds(without(&load_options::allow_mismatched), "`head.weight` is float32[7x64]"));
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  const auto r = load(net, dir / "f", rest);
  BOOST_TEST(same_bits(net.parameters(), before.parameters()));
  BOOST_TEST(r.loaded.empty());
  BOOST_TEST(r.missing.size() == 6u);
  BOOST_TEST(r.unexpected.size() == 6u);
  BOOST_TEST(r.mismatched.size() == 2u);
  // A mismatch of the element type counts, too.
  contents typed(dir / "f");
  typed["head.bias"] = any_tensor(tensor_type{dtype::float64, shape{3}});
  typed.write(dir / "typed");
  const auto other = load(net, dir / "typed", rest);
  BOOST_TEST((other.mismatched[1].in_file == tensor_type{dtype::float64, shape{3}}));
  // The same for a net from a file.
  save_net(dir / "net", before);
  auto core = core_of(load_net(dir / "net"));
  BOOST_TEST(load(core, dir / "f", {.renames = {{"c.*", "conv.*"}, {"n.*", "norm.*"}}, .allow_mismatched = true})
                 .loaded.size() == 6u);
  BOOST_TEST(has_bits_of(core.parameters(), "conv.bias", from.parameters(), "c.bias"));
}

BOOST_AUTO_TEST_CASE(patterns_of_renames) {
  test_files::folder dir;
  pretrained_type from({.seed = 3}), into({.seed = 4});
  save(from, dir / "f");
  contents c(dir / "f");
  for (auto& t : c.tensors) t.name = "net." + t.name.substr(0, 1) + "x" + t.name.substr(1);  // net.cx.weight
  c.write(dir / "g");
  BOOST_TEST(
      load(into, dir / "g",
           {.renames = {{"net.hx*.*", "h*.*"}, {"n?t.nx.*", "n.*"}, {"*.*x.*", "*.*.*"}},
            .allow_missing = true,
            .allow_unexpected = true})
              .loaded == (strings{"n.running_mean", "n.running_var", "n.weight", "n.bias", "head.weight", "head.bias"}),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(patterns_that_fit_nothing) {
  test_files::folder dir;
  pretrained_type from({.seed = 3});
  save(from, dir / "f");
  net_type net({.seed = 1});
  const auto refused = [&](const std::vector<name_pattern>& p) {
    return error_of([&] {
      load(net, dir / "f", {.renames = p, .allow_missing = true, .allow_unexpected = true, .allow_mismatched = true});
    });
  };
  BOOST_TEST(
      holds(refused({{"hed.*", "x.*"}}), "pattern `hed.*` matches no state that earlier patterns leave; there are"));
  BOOST_TEST(holds(refused({{"hed.weight", "x"}}), "did you mean `head.weight`"));
  BOOST_TEST(
      holds(refused({{"*", "*"}, {"c.*", "conv.*"}}), "pattern `c.*` matches no state that earlier patterns leave"));
  BOOST_TEST(holds(refused({{"c.*", "*.*"}}), "pattern `*.*` has more `*` than `c.*`"));
  BOOST_TEST(holds(refused({{"c.*", "n.*"}}), "are both renamed to `n."));
}

// A file that another program truncates and refills meanwhile: an error or values, never a signal.
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
