// Nets in files: a loaded net computes the bits of the saved one, and mismatches are refused.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "files.h"

import lamina;

#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;

namespace {

any_tensor any_random(const tensor_type& type, int seed) {
  any_tensor t(type);
  philox stream(seed, 5);
  for (std::int64_t i = 0; i < type.dims.size(); ++i) {
    const double u = stream.uniform<double>(static_cast<std::uint64_t>(i));
    with_type(type.element, [&]<class T>() {
      if constexpr (std::is_class_v<T>) reinterpret_cast<T*>(t.mutable_data())[i] = T(static_cast<float>(2 * u - 1));
      else if constexpr (std::is_integral_v<T>) reinterpret_cast<T*>(t.mutable_data())[i] = static_cast<T>(u < 0.5);
      else reinterpret_cast<T*>(t.mutable_data())[i] = static_cast<T>(2 * u - 1);
    });
  }
  return t;
}
bool same_bits_of(const std::vector<any_tensor>& a, const std::vector<any_tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].type() != b[i].type() || std::memcmp(a[i].data(), b[i].data(), a[i].bytes()) != 0) return false;
  return true;
}
// Inputs for the net, with N and unknown extents equal to `n`.
std::vector<any_tensor> inputs_of(const program& p, std::int64_t n) {
  std::vector<any_tensor> in;
  for (auto i : p.inputs()) {
    tensor_type t = p.at(i).results[0];
    for (int k = 0; k < t.dims.rank; ++k)
      if (!t.dims[k].is_number()) t.dims[k] = n;
    in.push_back(any_random(t, static_cast<int>(in.size()) + 3));
  }
  return in;
}

// Saves and loads a model: same program, states and results.
template <class Net> void comes_back(Net& net) {
  const test_files::folder dir;
  save_net(dir / "net", net);
  BOOST_TEST(dir.count() == 2);
  const saved_net again = load_net(dir / "net");
  BOOST_TEST((again.program->id() == net.core().inference().id()));
  BOOST_TEST(again.program->dump() == net.core().inference().dump());
  BOOST_TEST(same_bits(again.states, net.parameters()));
  for (std::size_t i = 0; i < again.states.size(); ++i) {
    BOOST_TEST((again.states[i].role() == net.parameters()[i].role()));
    BOOST_TEST(again.states[i].trainable() == net.parameters()[i].trainable());
  }
  for (std::int64_t n : {1, 5}) {
    const auto in = inputs_of(*again.program, n);
    const program_factory before(net.core().inference_program(), net.parameters());
    BOOST_TEST(same_bits_of(again.factory().create()(in), before.create()(in)));
  }
}

constexpr auto small = sequential(sublayer<"conv">(nn::conv2d{.in_channels = 1, .out_channels = 4, .kernel_size = 3}),
                                  sublayer<"norm">(nn::batch_norm2d{4}), nn::relu{}, nn::flatten{}, nn::dropout{0.2},
                                  sublayer<"head">(nn::linear{.in_features = 64, .out_features = 3}));
using small_net = model<small, input<"N", 1, 6, 6>>;

constexpr auto images_net =
    sequential(nn::conv2d{.in_channels = 2, .out_channels = 4, .kernel_size = 3, .padding = 1},
               nn::group_norm{.num_groups = 2, .num_channels = 4}, nn::silu{}, nn::avg_pool2d{.kernel_size = 2},
               nn::conv_transpose2d{.in_channels = 4, .out_channels = 2, .kernel_size = 2, .stride = 2},
               nn::global_avg_pool2d{}, nn::flatten{}, nn::softmax{});
constexpr auto text_net =
    sequential(nn::lstm{.input_size = 3, .hidden_size = 4, .num_layers = 2, .batch_first = true, .bidirectional = true},
               nn::layer_norm{{8}}, nn::linear{.in_features = 8, .out_features = 2}, nn::tanh{});
constexpr auto gru_net = sequential(nn::gru{.input_size = 3, .hidden_size = 4}, nn::rms_norm{{4}});
constexpr auto words_net =
    sequential(nn::embedding{.num_embeddings = 7, .embedding_dim = 8},
               nn::self_attention{.embed_dim = 8, .num_heads = 2, .causal = true},
               nn::grouped_query_attention{.embed_dim = 8, .num_heads = 2, .num_kv_heads = 1, .causal = true},
               nn::linear{.in_features = 8, .out_features = 7}, nn::log_softmax{});
constexpr auto frozen = sequential(sublayer<"a">(nn::linear{.in_features = 4, .out_features = 4}), nn::gelu{},
                                   sublayer<"b">(nn::linear{.in_features = 4, .out_features = 2}));

std::string refusal(const std::string& path) {
  return error_of([&] { load_net(path); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(saved_nets)

BOOST_AUTO_TEST_CASE(families_of_layers) {
  {
    model<lenet, input<"N", 1, 28, 28>> net({.seed = 1});
    comes_back(net);
  }
  {
    model<images_net, input<"N", 2, 8, 8>> net({.seed = 2});
    comes_back(net);
  }
  {
    model<text_net, input<"N", 6, 3>> net({.seed = 3});
    comes_back(net);
  }
  {
    model<gru_net, input<6, "N", 3>> net({.seed = 4});
    comes_back(net);
  }
  {
    model<words_net, input_of<std::int64_t, "N", 5>> net({.seed = 5});
    comes_back(net);
  }
  {
    model<frozen, input<"N", 4>, policies<element<double>, sub<"a">(trainable(false))>> net({.seed = 6});
    comes_back(net);
  }
}

BOOST_AUTO_TEST_CASE(a_trained_net_is_saved_with_the_slots_of_its_optimizer) {
  test_files::folder dir;
  small_net net({.seed = 1});
  fit(net, squares(40, 1), loss::cross_entropy{}, optim::adam{}, {.batch = 8});
  comes_back(net);
  save_net(dir / "net.json", net, {{"by", "a test"}});
  const auto again = load_net(dir / "net.safetensors");
  BOOST_TEST(again.metadata.size() == 1u);
  BOOST_TEST(again.metadata.at("by") == "a test");
  std::size_t slots = 0;
  for (std::size_t i = 0; i < again.states.size(); ++i) slots += again.states[i].role() == state_role::optimizer;
  BOOST_TEST(slots >= 12u);
  // The same bits as the typed model.
  auto x = random_tensor<tensor<float, extents<dyn, 1, 6, 6>>>({5, 1, 6, 6}, 1);
  auto y = net(x);
  const auto z = again.factory().create()(std::vector<any_tensor>{x});
  BOOST_TEST(std::memcmp(z[0].data(), y.data().data(), z[0].bytes()) == 0);
}

BOOST_AUTO_TEST_CASE(names_of_files) {
  for (const std::string name : {"a/b", "a/b.json", "a/b.safetensors"}) {
    BOOST_TEST(files_of_net(name).structure == "a/b.json");
    BOOST_TEST(files_of_net(name).weights == "a/b.safetensors");
  }
  BOOST_TEST(files_of_net("a.b").structure == "a.b.json");
}

BOOST_AUTO_TEST_CASE(files_that_do_not_fit) {
  test_files::folder dir;
  small_net net({.seed = 1});
  model<frozen, input<"N", 4>> other({.seed = 2});
  save_net(dir / "net", net);
  save_net(dir / "other", other);
  const auto structure = test_files::read_raw(dir / "net.json"),
             weights = test_files::read_raw(dir / "net.safetensors");
  const auto file = read_safetensors(dir / "net.safetensors");
  auto with_weights = [&](auto change) {
    std::vector<named_tensor> tensors;
    for (const auto& t : file.tensors) tensors.push_back({t.name, t.value.copy()});
    auto metadata = file.metadata;
    change(tensors, metadata);
    write_safetensors(dir / "bad.safetensors", tensors, metadata);
    test_files::write_raw(dir / "bad.json", structure);
    return refusal(dir / "bad");
  };
  auto with_structure = [&](std::string_view part, std::string_view by) {
    auto s = structure;
    s.replace(s.find(part), part.size(), by);
    test_files::write_raw(dir / "bad.json", s);
    test_files::write_raw(dir / "bad.safetensors", weights);
    return refusal(dir / "bad");
  };
  const std::string bad_json = dir / "bad.json: ", bad_weights = dir / "bad.safetensors: ";
  BOOST_TEST(with_weights([](auto&, auto&) {}) == "");
  BOOST_TEST(with_weights([](auto& t, auto&) { t.pop_back(); }).find("is missing") != std::string::npos);
  BOOST_TEST(holds(with_weights([](auto& t, auto&) { t.push_back({"more", t[0].value}); }),
                   bad_weights + "state `more` is in the file, but "));
  BOOST_TEST(
      holds(with_weights([](auto&, auto& m) { m.clear(); }), bad_weights + "metadata `lamina.program` is missing"));
  BOOST_TEST(holds(with_weights([](auto& t, auto&) {
                     for (auto& v : t)
                       if (v.name == "head.bias") v.value = any_tensor(tensor_type{dtype::float32, {4}});
                   }),
                   bad_weights + "state `head.bias` is float32[4]; expected float32[3]"));
  BOOST_TEST(holds(with_structure("lamina net", "a net"), bad_json + "`format` is `a net`; expected `lamina net`"));
  BOOST_TEST(holds(with_structure("\"version\": 1", "\"version\": 9"),
                   "error: " + bad_json + "version 9 of `lamina net`; this library reads version 1"));
  BOOST_TEST(holds(with_structure("\"parameter\"", "\"parametr\""),
                   bad_json + "state `conv.weight`: the role `parametr` is not known; there are `parameter`"));
  BOOST_TEST(holds(with_structure("\"conv2d\"", "\"conv3d\""),
                   bad_json + "node 2 (conv3d) of program 0: the operation `conv3d` is not known"));
  // Other attributes, other weights: errors for a mismatched pair of files.
  BOOST_TEST(holds(with_structure("\"groups\": 1", "\"groups\": 2"), bad_json + "node "));
  test_files::write_raw(dir / "bad.json", test_files::read_raw(dir / "other.json"));
  BOOST_TEST(holds(refusal(dir / "bad"), bad_weights + "these weights belong to another net than "));
  for (std::size_t n = 0; n < structure.size(); n += 211) {
    test_files::write_raw(dir / "bad.json", structure.substr(0, n));
    BOOST_TEST(holds(refusal(dir / "bad"), "file_error: " + bad_json));
  }
  test_files::write_raw(dir / "bad.json", structure);
  for (std::size_t n = 0; n < weights.size(); n += 97) {
    test_files::write_raw(dir / "bad.safetensors", weights.substr(0, n));
    BOOST_TEST(holds(refusal(dir / "bad"), "file_error: " + bad_weights));
  }
  BOOST_TEST(holds(refusal(dir / "none"), "file_error: " + (dir / "none.json") + ": cannot be read"));
}

BOOST_AUTO_TEST_CASE(states_that_are_missing_are_not_saved) {
  test_files::folder dir;
  small_net net({.seed = 1});
  BOOST_TEST(holds(error_of([&] { save_net(dir / "net", net.core().inference(), parameter_store()); }),
                   "state `conv.weight` of the program is not among the states"));
  BOOST_TEST(dir.count() == 0);
}

BOOST_AUTO_TEST_SUITE_END()
