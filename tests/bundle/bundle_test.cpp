// Bundles: written here, linked into plain C programs, run there, and compared bit by bit with runs in this process.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

import lamina;
import lamina.bundle;

#include "bundle_run.h"
#include "elementwise_functions.h"
#include "nets.h"

using namespace lamina;
using namespace lamina::ir;
using namespace nets_test;
using namespace bundle_run;

namespace {

inline constexpr auto functions = sequential(elementwise_functions::mean_of_all{});

// In a build with sanitizers the kernels are instrumented: programs must be linked with them, too.
#ifdef SANITIZE
constexpr bool instrumented = true;
const std::string linked = CXX " " SANITIZE " ",
                  c99 = CC " " SANITIZE " -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I. -c ";
#else
constexpr bool instrumented = false;
const std::string linked = CXX " -nostdlib++ -static ",
                  c99 = CC " -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I. -c ";
#endif

// Runs the self-test of a bundle in a C program.
std::string run_self_test(const std::string& name, const std::string& at) {
  std::string capitals = name;
  for (char& c : capitals) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  auto said = run(at, c99 + "-DENTRY=" + name + " -DCAPITALS=" + capitals + " '-DHEADER=\"" + name +
                          ".h\"' " SOURCES "/self_test.c -o main.o && " + linked + "main.o " + name + ".o -lm -o main");
  return said + run(at, "./main " + name + ".weights");
}
// Bundles a model for one shape of each input.
template <class Model> std::string self_test(const std::string& name, const Model& net,
                                             std::initializer_list<shape> inputs, pass_options passes = {}) {
  const auto at = folder(name);
  bundle::write(net, {.name = name, .inputs = inputs, .directory = at, .passes = passes});
  return run_self_test(name, at);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bundles)

BOOST_AUTO_TEST_CASE(lenet_in_c_gives_the_same_bits) {
  const auto at = folder("lenet");
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 42});
  const auto made = bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at, .source = true});
  const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  write_bytes(at + "/in", x.data().data(), 784 * 4);
  const auto expected = net(x);
  BOOST_TEST(made.files.size() == 4u);
  for (const auto& f : made.files) BOOST_TEST(std::filesystem::exists(f), f);
  BOOST_TEST(std::filesystem::file_size(at + "/lenet.weights") == made.constant_bytes);

  BOOST_TEST(run(at, c99 + SOURCES "/lenet.c -o main.o && " + linked +
                         "main.o lenet.o -lm -o lenet && ./lenet lenet.weights in out") == "");
  BOOST_TEST(same_as_file(expected.data(), at + "/out"));

  // Under sanitizers: the calling program, then the source of the bundle too.
  const std::string sanitized = " -g -fsanitize=address,undefined -fno-sanitize-recover=all ";
  BOOST_TEST(run(at, c99 + sanitized + SOURCES "/lenet.c -o main.o && " CXX " " + sanitized +
                         "main.o lenet.o -lm -o sanitized && ./sanitized lenet.weights in out") == "");
  BOOST_TEST(same_as_file(expected.data(), at + "/out"));
  if (instrumented) return;
  BOOST_TEST(run(at, c99 + sanitized + "lenet.c -o lenet_source.o && " CXX " " + sanitized +
                         "main.o lenet_source.o " KERNELS "/liblamina_kernels_" + std::string(name_of(target_isa())) +
                         ".a -lm -o sanitized && ./sanitized lenet.weights in out") == "");
  BOOST_TEST(same_as_file(expected.data(), at + "/out"));

  // No allocation, thread or stdio: the only imports move memory, the only exports are the functions of the header.
  BOOST_TEST(run(at, NM " -u lenet.o | sed 's/^ *U //' | grep -v "
                        "'^memcpy$\\|^memset$\\|^memmove$\\|^_GLOBAL_OFFSET_TABLE_$' || true") == "");
  BOOST_TEST(run(at, NM " -g --defined-only lenet.o | sed 's/.* //'") ==
             "lenet\nlenet_check_weights\nlenet_self_test\n");
  BOOST_TEST(run(at, NM " lenet.o | grep ' [bBdDcC] ' || true") == "");  // no writable data
}

BOOST_AUTO_TEST_CASE(a_quantized_net_gives_the_same_bits) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 42});
  const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  const std::vector<std::vector<any_tensor>> samples{{random_tensor<images>({9, 1, 28, 28}, 2)}};
  const auto q = quantize(net, profile(net, samples));
  const auto at = folder("quantized"), whole = folder("whole");
  const auto made = bundle::write(*q.program, q.states, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at});
  BOOST_TEST(made.constant_bytes * 2 <
             bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = whole}).constant_bytes);
  write_bytes(at + "/in", x.data().data(), 784 * 4);
  const auto expected = program_factory(q.program, q.states).create()(std::vector<any_tensor>{x});
  BOOST_TEST(run(at, c99 + SOURCES "/lenet.c -o main.o && " + linked +
                         "main.o lenet.o -lm -o lenet && ./lenet lenet.weights in out") == "");
  BOOST_TEST(same_as_file(expected[0].elements<float>(), at + "/out"));
  BOOST_TEST(run_self_test("lenet", at) == "");
}

BOOST_AUTO_TEST_CASE(the_header_is_plain_c_and_cpp) {
  const auto at = folder("header");
  model<lenet, input<"N", 1, 28, 28>> net;
  bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at, .source = true});
  std::ofstream(at + "/use.c") << "#include \"lenet.h\"\n#include \"lenet.h\"\nfloat *f(uint8_t *m) { return "
                                  "lenet_input(m) + LENET_INPUT_ELEMENTS; }\n";
  const std::string strict = " -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -I. -c use.c -o use.o";
  BOOST_TEST(run(at, CC " -std=c99" + strict) == "");
  for (auto level : {"11", "17", "20", "23"})
    BOOST_TEST(run(at, CXX " -x c++ -std=c++" + std::string(level) + strict) == "");
  BOOST_TEST(run(at, CC " -std=c99 -Wall -Wextra -Wpedantic -Werror -I. -c lenet.c -o lenet_source.o") == "");
}

BOOST_AUTO_TEST_CASE(the_header_says_how_memory_is_used) {
  const auto at = folder("memory");
  model<lenet, input<"N", 1, 28, 28>> net;
  const auto made = bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at});
  const shape x{1, 1, 28, 28};
  const auto planned = net.core().plan_for({&x, 1});
  const auto header = text_of(at + "/lenet.h");
  message_text t;
  t << "lenet: constant weights " << made.constant_bytes << " bytes, mutable weights 3200 bytes, activations "
    << made.activation_bytes << " bytes\n * (results: " << planned->cost().arena << " bytes, at most "
    << planned->cost().live_peak << " live at once";
  BOOST_TEST(holds(header, t.view()));
  BOOST_TEST(holds(
      header, "input    input               float32[1x1x28x28]      784 elements        3136 bytes        at 0\n"));
  BOOST_TEST(holds(
      header, "output   output              float32[1x10]           10 elements         40 bytes          at 3136\n"));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_get_codes) {
  const auto at = folder("misuse");
  model<lenet, input<"N", 1, 28, 28>> net;
  bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at});
  BOOST_TEST(run(at, c99 + "-g -fsanitize=address,undefined " SOURCES "/misuse.c -o main.o && " CXX
                           " -fsanitize=address,undefined main.o lenet.o -lm -o main && ./main lenet.weights") ==
             "0 null 1 1 1 1 misaligned 2 2 2 2 magic 3 3 version 4 4 size 5 5 checksum 6 6 short 5 3 3 unseen 0 "
             "damaged 6 whole 0\n");
}

BOOST_AUTO_TEST_CASE(nets_of_all_kinds_give_the_same_bits) {
  BOOST_TEST(self_test("perceptron", model<perceptron, input<"N", 4>>(), {{5, 4}}) == "");
  BOOST_TEST(self_test("wide", model<perceptron, input<"N", 4>, policies<element<double>>>(), {{5, 4}}) == "");
  BOOST_TEST(self_test("plain", model<lenet, input<"N", 1, 28, 28>>(), {{3, 1, 28, 28}},
                       {.fuse_elementwise = false, .blocked_layout = false, .reuse_memory = false}) == "");
  BOOST_TEST(self_test("regular", model<regular, input<"N", 1, 6, 6>>(), {{2, 1, 6, 6}}) == "");
  BOOST_TEST(self_test("functions", model<functions, input<"N", 20>>(), {{3, 20}}) == "");
  BOOST_TEST(self_test("voice", model<voice, input<"T", "N", 3>>(), {{7, 2, 3}}) == "");
  BOOST_TEST(self_test("both_ways", model<both_ways, input<"T", "N", 3>>(), {{4, 3, 3}}) == "");
  BOOST_TEST(self_test("decoder", model<decoder, port_input<"input", std::int64_t, "N", "T">>(), {{2, 9}}) == "");
  BOOST_TEST(self_test("encoder", model<encoder, input<"N", "T", 16>>(), {{2, 70, 16}}) == "");
  BOOST_TEST(self_test("depthwise", model<depthwise, input<"N", 3, 20, 20>>(), {{2, 3, 20, 20}}) == "");
  BOOST_TEST(self_test("two_inputs", model<two_inputs, input<"M", "K">, input<"K", "N">>(), {{70, 300}, {300, 50}}) ==
             "");
}

BOOST_AUTO_TEST_CASE(truths_decide_in_a_bundle_too) {
  // Each iteration of a scan doubles the sum where x > 0, otherwise halves it until it is below 1.
  const tensor_type numbers{dtype::float32, {4}};
  auto doubled = std::make_shared<program>(), halved = std::make_shared<program>(),
       smaller = std::make_shared<program>(), body = std::make_shared<program>();
  {
    value s = doubled->input("s", numbers), x = doubled->input("x", numbers);
    doubled->output("s", s + 2 * x);
  }
  {
    value s = smaller->input("s", numbers), next = s * 0.5;
    smaller->output("again", reduce_max(abs(next)) >= 1);
    smaller->output("s", next);
  }
  {
    value s = halved->input("s", numbers), x = halved->input("x", numbers), both = s + x;
    halved->output("s", loop(5, value(reduce_max(abs(both)) >= 1), smaller, {&both, 1})[0]);
  }
  {
    const value both[] = {body->input("s", numbers), body->input("x", numbers)};
    value s = cond(value(reduce_sum(both[1]) > 0), doubled, halved, both)[0];
    body->output("s", s);
    body->output("y", s * 1);
  }
  program p;
  const value zero = p.input("first", numbers), x = p.input("x", {dtype::float32, {9, 4}}),
              truths = p.input("truths", {dtype::boolean, {}});
  const auto made = scan(body, {&zero, 1}, {&x, 1}, {});
  p.output("y", made[1]);
  const value last[] = {made[0], zero};
  p.output("z", cond(truths, doubled, halved, last)[0]);
  const auto at = folder("truths");
  const parameter_store none;
  const std::vector<bundle::program_entry> parts{{"truths", p, none, {{4}, {9, 4}, {}}}};
  bundle::write(view<const bundle::program_entry>(parts),
                {.name = "truths", .inputs = {}, .directory = at, .source = true});
  BOOST_TEST(holds(text_of(at + "/truths.c"), "if (*(const uint8_t*)"));
  BOOST_TEST(run_self_test("truths", at) == "");
}

BOOST_AUTO_TEST_CASE(two_bundles_in_one_program) {
  const auto at = folder("two");
  model<lenet, input<"N", 1, 28, 28>> a({.seed = 1}), b({.seed = 2});
  bundle::write(a, {.name = "first", .inputs = {{1, 1, 28, 28}}, .directory = at, .text = true});
  bundle::write(b, {.name = "second", .inputs = {{2, 1, 28, 28}}, .directory = at, .text = true});
  BOOST_TEST(run(at, c99 + SOURCES "/two.c -o two.o && " + linked + "two.o first.o second.o -lm -o two && ./two") ==
             "");
}

BOOST_AUTO_TEST_CASE(entries_share_constants_and_a_table_names_them) {
  const auto at = folder("entries");
  parameter_store states;
  tensor<float, extents<16>> three(shape{16});
  for (auto& v : three.writable()) v = 3;
  states.add("three", three, state_role::parameter);
  auto program_of = [](auto rule) {
    program p;
    auto x = p.input("x", {dtype::float32, {16}});
    p.output("y", rule(x, p.state("three", {dtype::float32, {16}})));
    return p;
  };
  const auto sums = program_of([](auto x, auto three) { return x * x - three + x / x; }),
             products = program_of([](auto x, auto three) { return x * three; });
  const std::vector<bundle::program_entry> parts{{"sums", sums, states, {{16}}},
                                                 {"products", products, states, {{16}}}};
  const auto made =
      bundle::write(view<const bundle::program_entry>(parts),
                    {.name = "sums", .inputs = {}, .directory = at, .api = bundle::api::dynamic, .graph = true});
  BOOST_TEST(
      run(at, c99 + SOURCES "/dynamic.c -o main.o && " + linked + "main.o sums.o -lm -o main && ./main sums.weights") ==
      "16 float32 16 of 3: 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2\n16 float32 16 of 3: 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6 6\n");
  // The head, the shared constants, one input for both self-tests, and a result for each.
  BOOST_TEST(made.constant_bytes == 5u * 64);
  BOOST_TEST(text_of(at + "/sums.graph.dot").starts_with("digraph"));
  BOOST_TEST(text_of(at + "/products.graph.json").find("\"multiply\"") != std::string::npos);
}

// Constants of the program are stored as the plan packed them, not in their original form.
BOOST_AUTO_TEST_CASE(constant_weights_are_packed) {
  const auto at = folder("constant");
  const auto made_of = [&](bool constant) {
    parameter_store states;
    program p;
    const auto x = p.input("x", {dtype::float32, {1, 16, 6, 6}});
    const auto weight = [&](const char* name, const shape& s) {
      any_tensor w(tensor_type{dtype::float32, s});
      auto* v = reinterpret_cast<float*>(w.mutable_data());
      for (std::int64_t i = 0; i < s.size(); ++i) v[i] = static_cast<float>(i % 7) * 0.1f - 0.3f;
      if (constant) return p.constant(w);
      states.add(name, w, state_role::parameter);
      return p.state(name, {dtype::float32, s});
    };
    const auto h = relu(conv2d(x, weight("a", {19, 16, 3, 3})) + weight("b", {19, 1, 1}));
    p.output("y", matmul(flatten(h), weight("c", {19 * 16, 5})));
    const std::vector<bundle::program_entry> parts{{"net", p, states, {{1, 16, 6, 6}}}};
    const auto made =
        bundle::write(view<const bundle::program_entry>(parts), {.name = "net", .inputs = {}, .directory = at});
    BOOST_TEST(run_self_test("net", at) == "");
    return made.constant_bytes;
  };
  BOOST_TEST(made_of(true) == made_of(false));
}

// Padding that meets a non-finite weight is left out of sums by code that other bundles do not link.
BOOST_AUTO_TEST_CASE(finite_weights_need_no_repair) {
  const auto at = folder("finite");
  for (const bool finite : {true, false})
    for (const bool constant : {true, false})
      for (const auto& [in, out, groups] : {std::tuple{1, 6, 1}, {16, 19, 1}, {32, 32, 32}}) {
        parameter_store states;
        program p;
        const auto x = p.input("x", {dtype::float32, {1, in, 9, 9}});
        any_tensor w(tensor_type{dtype::float32, {out, in / groups, 5, 5}});
        auto* v = reinterpret_cast<float*>(w.mutable_data());
        for (std::int64_t i = 0; i < w.type().dims.size(); ++i) v[i] = static_cast<float>(i % 7) * 0.1f - 0.3f;
        if (!finite) v[25] = std::numeric_limits<float>::infinity();
        if (!constant) states.add("w", w, state_role::parameter);
        const auto weight = constant ? p.constant(w) : p.state("w", w.type());
        p.output("y", conv2d(x, weight, {.padding = {2, 2}, .groups = groups}));
        const std::vector<bundle::program_entry> parts{{"net", p, states, {{1, in, 9, 9}}}};
        bundle::write(view<const bundle::program_entry>(parts),
                      {.name = "net", .inputs = {}, .directory = at, .source = true});
        BOOST_TEST_CONTEXT(in << " channels, finite " << finite << ", constant " << constant) {
          BOOST_TEST(run_self_test("net", at) == "");
          BOOST_TEST(holds(text_of(at + "/net.c"), "conv_repair_") == !finite);
        }
      }
}

BOOST_AUTO_TEST_CASE(what_follows_from_weights_is_a_constant) {
  const auto at = folder("precomputed");
  parameter_store states;
  const auto made = std::make_shared<program>();
  auto& p = *made;
  const auto x = p.input("input", {dtype::float32, {1, 8}});
  const auto filled = [](const shape& s) {
    any_tensor w(tensor_type{dtype::float32, s});
    auto* v = reinterpret_cast<float*>(w.mutable_data());
    for (std::int64_t i = 0; i < s.size(); ++i) v[i] = static_cast<float>(i % 7) * 0.13f - 0.3f;
    return w;
  };
  const auto weight = [&](const char* name, const shape& s) {
    states.add(name, filled(s), state_role::parameter);
    return p.state(name, {dtype::float32, s});
  };
  const auto both = concat<1>(weight("a", {8, 3}), exp(weight("b", {8, 4})));
  p.output("output", matmul(x, both) * weight("scale", {7}) + weight("shift", {7}));
  bundle::options o{.name = "lenet", .inputs = {{1, 8}}, .directory = at, .source = true};
  bundle::write(p, states, o);
  const std::string source = text_of(at + "/lenet.c");
  BOOST_TEST(!holds(source, "concat"), source);
  BOOST_TEST(!holds(source, "exp"), source);
  const any_tensor input = filled({1, 8});
  write_bytes(at + "/in", input.data(), input.bytes());
  const auto expected = program_factory(made, states).create()(std::vector{input});
  const auto run_it = [&] {
    return run(at, c99 + SOURCES "/lenet.c -o main.o && " + linked +
                       "main.o lenet.o -lm -o lenet && ./lenet lenet.weights in out");
  };
  BOOST_TEST(run_it() == "");
  BOOST_TEST(same_as_file(expected[0].elements<float>(), at + "/out"));
  // The scale is folded into the weights where possible.
  o.optimize = true;
  bundle::write(p, states, o);
  const auto optimized = program_factory(made, states, {.optimize = true}).create()(std::vector{input});
  BOOST_TEST(run_it() == "");
  BOOST_TEST(same_as_file(optimized[0].elements<float>(), at + "/out"));
}

BOOST_AUTO_TEST_CASE(one_net_for_two_shapes) {
  const auto at = folder("shapes");
  model<lenet, input<"N", 1, 28, 28>> net;
  const auto one = bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at});
  const auto two = bundle::write(
      net,
      {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at, .entries = {{"lenet_of_8", {{8, 1, 28, 28}}}}});
  BOOST_TEST(two.constant_bytes <
             one.constant_bytes + 8 * (784 + 10) * 4 + 128);  // a self-test with eight images, and no second weights
  BOOST_TEST(run(at, c99 +
                         "-DENTRY=lenet_of_8 -DCAPITALS=LENET_OF_8 '-DHEADER=\"lenet.h\"' " SOURCES
                         "/self_test.c -o main.o && " +
                         linked + "main.o lenet.o -lm -o main && ./main lenet.weights") == "");
}

BOOST_AUTO_TEST_CASE(an_index_out_of_range_is_a_code) {
  const auto at = folder("range");
  model<decoder, port_input<"input", std::int64_t, "N", "T">> net;
  bundle::write(net, {.name = "letters", .inputs = {{1, 4}}, .directory = at});
  std::ofstream(at + "/range.c") << R"(#include "letters.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  uint8_t *w = aligned_alloc(64, (LETTERS_CONSTANT_MEM_SIZE + 63) / 64 * 64), *m = aligned_alloc(64, (LETTERS_MUTABLE_MEM_SIZE + 63) / 64 * 64), *a = aligned_alloc(64, (LETTERS_ACTIVATIONS_MEM_SIZE + 63) / 64 * 64);
  int64_t *ids = letters_input(m);
  FILE *f = fopen("letters.weights", "rb");
  if (!f || fread(w, 1, LETTERS_CONSTANT_MEM_SIZE, f) != LETTERS_CONSTANT_MEM_SIZE) return 20;
  ids[0] = 19, ids[1] = 20, ids[2] = -20, ids[3] = 0;
  printf("%d", letters(w, m, a));
  ids[1] = -21;
  printf(" %d", letters(w, m, a));
  ids[1] = 1;
  printf(" %d\n", letters(w, m, a));
  fclose(f), free(w), free(m), free(a);
  return 0;
}
)";
  BOOST_TEST(run(at, c99 + "range.c -o main.o && " + linked + "main.o letters.o -lm -o main && ./main") == "7 7 0\n");
}

BOOST_AUTO_TEST_CASE(damaged_weights_do_no_harm) {
  const char* wanted = std::getenv("LAMINA_FUZZ_EXECUTIONS");
  const std::string executions = wanted ? wanted : "20000";
  const auto at = folder("fuzz_" + executions);
  model<decoder, port_input<"input", std::int64_t, "N", "T">> net;
  bundle::write(net, {.name = "letters", .inputs = {{1, 4}}, .directory = at});
  BOOST_TEST(run(at, c99 +
                         "-O2 -DENTRY=letters -DBUNDLE=letters -DCAPITALS=LETTERS '-DHEADER=\"letters.h\"' " SOURCES
                         "/fuzz.c -o main.o && " +
                         linked + "main.o letters.o -lm -o main") == "");
  const auto said = run(at, "./main letters.weights " + executions + " 1");
  BOOST_TEST(said.starts_with(executions + " executions: "), said);
  BOOST_TEST(said.ends_with("refused a value\n"), said);
}

BOOST_AUTO_TEST_CASE(an_instrumented_bundle_tells_of_each_operation) {
  const auto at = folder("instrumented");
  model<lenet, input<"N", 1, 28, 28>> net;
  bundle::write(
      net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at, .instrument = true, .dump_tensors = true});
  const auto said = run(at, c99 + SOURCES "/instrumented.c -o main.o && " + linked +
                                "main.o lenet.o -lm -o main && ./main lenet.weights");
  const shape x{1, 1, 28, 28};
  const auto planned = net.core().plan_for({&x, 1});
  std::string expected;
  for (const auto& l : planned->lines()) {
    message_text t;
    t << l.what << "\n";
    for (const auto& r : l.results)
      t << "  " << r.type << " " << planned->buffers()[static_cast<std::size_t>(r.buffer)].bytes << "\n";
    expected += t.string();
  }
  message_text last;
  last << planned->lines().size() << " " << planned->lines().size() << " float32[1x10]\n";
  BOOST_TEST(said == expected + last.string());
}

BOOST_AUTO_TEST_CASE(each_result_in_memory_is_told) {
  const auto at = folder("results");
  const tensor_type four{dtype::float32, {4}};
  auto body = std::make_shared<program>(), doubled = std::make_shared<program>(), smaller = std::make_shared<program>();
  {
    const value h = body->input("h", four), x = body->input("x", four), next = tanh(h + x);
    body->output("h", next);
    body->output("y", next * next);
    body->output("z", h - x);
  }
  {
    const value h = doubled->input("h", four);
    doubled->output("twice", h * 2);
    doubled->output("root", sqrt(abs(h)));
  }
  {
    const value h = smaller->input("h", four), half = h * 0.5;
    smaller->output("again", reduce_max(abs(half)) > 0.1);
    smaller->output("h", half);
  }
  program p;
  const value image = p.input("image", {dtype::float32, {1, 1, 4, 4}}), h = p.input("h", four),
              xs = p.input("xs", {dtype::float32, {5, 4}});
  const auto pooled = apply<op::max_pool2d>({.kernel_size = 2}, image);
  p.output("max", pooled[0]);
  p.output("place", pooled[1]);
  const auto walked = scan(body, {&h, 1}, {&xs, 1}, {});
  p.output("last", walked[0]);
  p.output("ys", walked[1]);
  p.output("zs", walked[2]);
  const auto branch = cond(value(reduce_sum(h) > 0), doubled, doubled, {&h, 1});
  p.output("twice", branch[0]);
  p.output("root", branch[1]);
  p.output("small", loop(6, value(reduce_sum(h) > 0), smaller, {&h, 1})[0]);
  const value root = exp(h);  // one chain with two results
  p.output("chain", root);
  p.output("chain_end", root * h + 1);
  std::ofstream(at + "/told.c") << R"(#include "told.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static struct { char type[40]; uint8_t data[128]; uint64_t bytes; } seen[64];
static int count, last = -1;
void told_tensor(int operation, const char *what, const char *type, const void *data, uint64_t bytes) {
  if (count == 64 || bytes > 128 || operation < last || !*what) exit(20);
  last = operation;
  strcpy(seen[count].type, type), memcpy(seen[count].data, data, bytes), seen[count++].bytes = bytes;
}
static void find(const char *name, const char *type, const void *data, uint64_t bytes) {
  int i;
  for (i = 0; i < count; ++i)
    if (!strcmp(seen[i].type, type) && seen[i].bytes == bytes && !memcmp(seen[i].data, data, bytes)) return;
  printf("%s %s is not told\n", name, type);
}
#define FIND(name, type, NAME) find(#name, type, told_##name(m), TOLD_##NAME##_BYTES)
int main(void) {
  uint8_t *w = aligned_alloc(64, (TOLD_CONSTANT_MEM_SIZE + 63) / 64 * 64), *m = aligned_alloc(64, (TOLD_MUTABLE_MEM_SIZE + 63) / 64 * 64), *a = aligned_alloc(64, (TOLD_ACTIVATIONS_MEM_SIZE + 63) / 64 * 64);
  FILE *f = fopen("told.weights", "rb");
  int i;
  if (!f || fread(w, 1, TOLD_CONSTANT_MEM_SIZE, f) != TOLD_CONSTANT_MEM_SIZE) return 21;
  for (i = 0; i < 16; ++i) told_image(m)[i] = (float)(i * 7 % 16);
  for (i = 0; i < 4; ++i) told_h(m)[i] = (float)i - 1;
  for (i = 0; i < 20; ++i) told_xs(m)[i] = (float)(i % 7) / 7;
  if (told(w, m, a)) return 22;
  FIND(max, "float32[1x1x2x2]", MAX);
  FIND(place, "int32[1x1x2x2]", PLACE);
  FIND(last, "float32[4]", LAST);
  FIND(ys, "float32[5x4]", YS);
  FIND(zs, "float32[5x4]", ZS);
  FIND(twice, "float32[4]", TWICE);
  FIND(root, "float32[4]", ROOT);
  FIND(small, "float32[4]", SMALL);
  FIND(chain, "float32[4]", CHAIN);
  FIND(chain_end, "float32[4]", CHAIN_END);
  fclose(f), free(w), free(m), free(a);
  return 0;
}
)";
  // Parallel execution needs threads; a bundle has none.
  for (bool parallel : {false, true}) {
    pass_options passes;
    passes.parallel = parallel;
    bundle::write(p, {},
                  {.name = "told",
                   .inputs = {{1, 1, 4, 4}, {4}, {5, 4}},
                   .directory = at,
                   .dump_tensors = true,
                   .passes = passes});
    BOOST_TEST(run(at, c99 + "told.c -o main.o && " + linked + "main.o told.o -lm -o main && ./main") == "");
  }
}

BOOST_AUTO_TEST_CASE(a_bundle_is_a_module_too) {
  const auto at = folder("module");
  model<lenet, input<"N", 1, 28, 28>> net;
  bundle::write(net, {.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at, .module_interface = true});
  BOOST_TEST(run(at, CXX " -std=c++20 -Wall -Wextra -Wpedantic -Werror --precompile lenet.cppm -o lenet.pcm && " CXX
                         " -std=c++20 -Wall -Wextra -Werror -fmodule-file=lenet=lenet.pcm -c " SOURCES
                         "/module.cpp -o main.o && " CXX " -std=c++20 -c lenet.pcm -o interface.o && " +
                         (instrumented ? linked : std::string(CXX " ")) +
                         "main.o interface.o lenet.o -lm -o module && ./module lenet.weights") == "1\n");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_bundled_is_told) {
  const auto at = folder("errors");
  model<lenet, input<"N", 1, 28, 28>> net;
  const bundle::options good{.name = "lenet", .inputs = {{1, 1, 28, 28}}, .directory = at};
  auto with = [&](auto change) {
    auto o = good;
    change(o);
    return error_of([&] { bundle::write(net, o); });
  };
  for (auto name : {"", "2net", "le net", "_net", "a-b"})
    BOOST_TEST(holds(with([&](auto& o) { o.name = name; }),
                     "value_error: bundle `" + std::string(name) + "`: the name has to be a C identifier"));
  BOOST_TEST(holds(with([](auto& o) { o.entries = {{"lenet", {{2, 1, 28, 28}}}}; }),
                   "the entry `lenet` needs a C identifier that no other entry has"));
  BOOST_TEST(holds(with([](auto& o) { o.inputs = {{1, 3, 28, 28}}; }), "shape_error: "));
  BOOST_TEST(holds(with([](auto& o) { o.samples = {tensor<float, extents<1, 28>>()}; }),
                   "value_error: bundle `lenet`: sample 0 is float32[1x28], but input `input` is float32[1x1x28x28]"));
  BOOST_TEST(
      holds(with([](auto& o) { o.samples = {any_tensor(), any_tensor()}; }), "there are 2 samples for 1 inputs"));
  BOOST_TEST(holds(with([](auto& o) { o.tools.compiler = "/no/compiler"; }),
                   "`/no/compiler`: it cannot be started: No such file or directory"));
  BOOST_TEST(holds(with([](auto& o) { o.tools.linker = "false"; }), "`false` failed"));
  BOOST_TEST(holds(with([](auto& o) { o.tools.kernels = "/no/kernels"; }), "file_error: bundle `lenet`: the kernels"));
  BOOST_TEST(holds(with([](auto& o) { o.directory = "/proc/here"; }), "/proc/here"));
  for (std::string target :
       {"riscv64-linux-gnu", "aarch64-apple-darwin", "x86-64", "x86_64-apple-darwin", "x86_64-unknown-freebsd",
        "x86_64-w64-mingw32", "x86_64-linux-gnux32", "aarch64-linux-gnu_ilp32", "aarch64", "aarch64_be-linux-gnu",
        "x86_64-pc", "x86_64linux-gnu", "x86_64-a-b-linux", "x86_64-linux-gnu-elf", "-", "linux"}) {
    const auto said = with([&](auto& o) { o.target = target; });
    BOOST_TEST(holds(said, "error: bundle `lenet`: the target `" + target +
                               "` is not supported: bundles are object files for Linux on x86_64 or aarch64"),
               said);
    auto o = good;
    o.target = target;
    BOOST_CHECK_THROW(bundle::write(net, o), unsupported_error);
  }
  BOOST_TEST(holds(with([](auto& o) { o.cpu = "no-such-processor"; }), "failed: "));
  BOOST_TEST(holds(with([](auto& o) { o.passes = pass_options{.compute = dtype::bfloat16}; }),
                   "error: bundle `lenet`: pass_options::compute is bfloat16"));
  // A data-dependent number of rows.
  program rows;
  const value all = rows.input("x", {dtype::float32, {"N", 2}});
  rows.output("y", compress(all, value(reduce_sum<1>(all) > 0)));
  const auto said = error_of([&] { bundle::write(rows, {}, {.name = "rows", .inputs = {{5, 2}}, .directory = at}); });
  BOOST_TEST(holds(said, "error: bundle `rows`: "), said);
  BOOST_CHECK_THROW(bundle::write(rows, {}, {.name = "rows", .inputs = {{5, 2}}, .directory = at}), unsupported_error);
  BOOST_TEST(holds(said, "the extent of its result is known only at run time"), said);
  // One message lists all operations that cannot be planned.
  program host;
  auto same = std::make_shared<program>(), twice = std::make_shared<program>();
  same->output("y", same->input("x", {dtype::float32, {"N", 2}}));
  const value doubled = twice->input("x", {dtype::float32, {"N", 2}});
  twice->output("y", concat<0>(doubled, doubled));
  const value given[] = {host.input("x", {dtype::float32, {"N", 2}})};
  const value is = host.input("is", {dtype::boolean, {}});
  host.path = "first";
  host.output("y", host_cond(is, same, twice, given)[0]);
  host.path = "second";
  host.output("z", host_cond(is, twice, same, given)[0]);
  host.path = {};
  host.output("rows", compress(given[0], value(reduce_sum<1>(given[0]) > 0)));
  const auto all_of =
      error_of([&] { bundle::write(host, {}, {.name = "host", .inputs = {{5, 2}, {}}, .directory = at}); });
  BOOST_TEST(holds(all_of, "first: host_cond: it runs on the host, between plans; second: host_cond: it runs"), all_of);
  BOOST_TEST(holds(all_of, "its result is known only at run time; "), all_of);
  BOOST_TEST(holds(all_of, "run this net by a session, or build it without these operations"), all_of);
  BOOST_TEST(std::filesystem::is_empty(at));  // no files remain
}

BOOST_AUTO_TEST_CASE(names_of_others_are_refused) {
  const auto at = folder("reserved");
  program p;
  p.output("y", p.input("x", {dtype::float32, {4}}) * 2);
  auto write = [&](const bundle::options& o) { return error_of([&] { bundle::write(p, {}, o); }); };
  for (std::string name : {"int", "const", "co_await", "class", "int8_t", "uint_fast16_t", "UINT64_MAX", "SIZE_MAX",
                           "NULL", "main", "malloc", "exp", "std", "lamina", "lamina_net", "ADDRESS", "status"}) {
    BOOST_TEST(holds(write({.name = name, .inputs = {{4}}, .directory = at}),
                     "value_error: bundle `" + name + "`: the name "));
    BOOST_TEST(holds(write({.name = "net", .inputs = {{4}}, .directory = at, .entries = {{name, {{4}}}}}),
                     "value_error: bundle `net`: the name of the entry `" + name + "` "));
  }
  for (std::string name : {"a_self_test", "a_check_weights", "a_y", "A", "a_before"}) {
    const auto said =
        write({.name = "a", .inputs = {{4}}, .directory = at, .entries = {{name, {{4}}}}, .instrument = true});
    BOOST_TEST(holds(said, "value_error: bundle `a`: `"), said);
    BOOST_TEST(holds(said, "choose another name for an entry"), said);
  }
  BOOST_TEST(std::filesystem::is_empty(at));
  // A table has no macros, and a name that only ends like a reserved one is accepted.
  bundle::write(p, {},
                {.name = "swin_t",
                 .inputs = {{4}},
                 .directory = at,
                 .api = bundle::api::dynamic,
                 .entries = {{"Swin_t", {{4}}}, {"swin_t_y", {{4}}}}});
  BOOST_TEST(std::filesystem::exists(at + "/swin_t.o"));
}

BOOST_AUTO_TEST_CASE(blobs_may_have_any_name) {
  const auto at = folder("names");
  program p;
  value sum = p.input("x", {dtype::float32, {4}});
  for (auto name : {"before", "tensor", "memory", "codes", "int", "alignment", "x_elements", "regions", "a/*b", "a*/b",
                    "a*\\\n/b", "int8_t"})
    sum = sum + p.input(name, {dtype::float32, {4}});
  p.output("class", sum);
  bundle::write(p, {},
                {.name = "names",
                 .inputs = std::vector<shape>(13, shape{4}),
                 .directory = at,
                 .source = true,
                 .module_interface = true,
                 .instrument = true,
                 .dump_tensors = true});
  const std::string strict = " -Wall -Wextra -Wpedantic -Wcomment -Werror -I. ";
  BOOST_TEST(run(at, CC " -std=c99" + strict + "-c names.c -o names_source.o") == "");
  BOOST_TEST(run(at, CXX " -std=c++20" + strict + "--precompile names.cppm -o names.pcm") == "");
  std::ofstream(at + "/use.cpp") << "import names;\nfloat* f(unsigned char* m) { return *names_memory::int_(m) ? "
                                    "names_memory::alignment_(m) : names_memory::class_(m); }\n";
  BOOST_TEST(run(at, CXX " -std=c++20" + strict + "-fmodule-file=names=names.pcm -c use.cpp -o use.o") == "");
  const auto header = text_of(at + "/names.h");
  for (auto function : {"names_before_2(", "names_tensor_2(", "names_memory_2(", "names_codes_2(", "names_int(",
                        "names_class(", "names_regions("})
    BOOST_TEST(holds(header, function));
}

BOOST_AUTO_TEST_CASE(nets_of_blobs_are_bundled) {
  const auto at = folder("blobs");
  graph::net n("n");
  const value x = n.external("x", {dtype::float32, {"N", 3}}), w = n.external("w", {dtype::float32, {3}}),
              total = n.external("total", {dtype::float32, {3}});
  const value y = n.output("y", x * w);
  n.assign(total, total + reduce_sum<0>(y));
  graph::workspace ws;
  ws.feed("total", vector<float>{10, 20, 30});
  // The whole net: assigned blobs are states, blobs that are read are inputs.
  bundle::write(n, ws, {.name = "whole", .inputs = {{2, 3}, {3}}, .directory = at});
  BOOST_TEST(run_self_test("whole", at) == "");
  for (auto line : {"input    x ", "input    w ", "output   y ", "state    total "})
    BOOST_TEST(holds(text_of(at + "/whole.h"), line));
  // The part that computes one blob from another; other blobs come from the workspace.
  const auto part = [&] { bundle::write(n, ws, {"x"}, {"y"}, {.name = "part", .inputs = {{1, 3}}, .directory = at}); };
  BOOST_TEST(holds(error_of(part), "there is no blob `w`"));
  const auto misspelt = [&] {
    bundle::write(n, ws, {"x"}, {"nix"}, {.name = "part", .inputs = {{1, 3}}, .directory = at});
  };
  BOOST_TEST(holds(error_of(misspelt), "bundle_test.cpp:"));
  BOOST_TEST(!holds(error_of(misspelt), "write.impl.cpp"));
  ws.feed("w", vector<float>{1, 2, 3});
  part();
  BOOST_TEST(!holds(text_of(at + "/part.h"), "input    w "));
  BOOST_TEST(!holds(text_of(at + "/part.h"), "total"));
  std::ofstream(at + "/part.c") << R"(#include "part.h"
#include <stdalign.h>
#include <stdio.h>
static alignas(64) uint8_t w[PART_CONSTANT_MEM_SIZE], m[PART_MUTABLE_MEM_SIZE], a[PART_ACTIVATIONS_MEM_SIZE];
int main(void) {
  FILE *f = fopen("part.weights", "rb");
  if (!f || fread(w, 1, sizeof w, f) != sizeof w) return 20;
  part_x(m)[0] = part_x(m)[1] = part_x(m)[2] = 2;
  printf("%d", part(w, m, a));
  printf(" %g %g %g\n", part_y(m)[0], part_y(m)[1], part_y(m)[2]);
  return 0;
}
)";
  BOOST_TEST(run(at, c99 + "part.c -o main.o && " + linked + "main.o part.o -lm -o main && ./main") == "0 2 4 6\n");
  // A model is bundled as its predictor, with its parameters.
  graph::model m("scores");
  {
    graph::model::scope here(m);
    m.main().output("scores", graph::fc(m.input("images", {dtype::float32, {"N", 4}}), 2));
  }
  ws.run_once(m.init());
  bundle::write(m, ws, {"images"}, {"scores"}, {.name = "scores", .inputs = {{3, 4}}, .directory = at});
  BOOST_TEST(run_self_test("scores", at) == "");
  BOOST_TEST(holds(text_of(at + "/scores.h"), "input    images "));
  BOOST_TEST(!holds(text_of(at + "/scores.h"), "fc"));
}

// Calls are rows of a table: neither the entry function nor the C compiler's time grows with them.
BOOST_AUTO_TEST_CASE(many_operations_are_a_table) {
  const auto at = folder("many");
  for (const auto& [name, layers] : {std::pair<std::string, int>("some", 60), {"thousands", 600}}) {
    graph::model m(name);
    graph::model::scope here(m);
    value x = m.input("x", {dtype::float32, {2, 8}});
    for (int i = 0; i < layers; ++i) x = tanh(graph::fc(x, 8, {.name = "f" + std::to_string(i)}));
    m.main().output("y", x);
    graph::workspace ws;
    ws.run_once(m.init());
    bundle::write(m, ws, {"x"}, {"y"}, {.name = name, .inputs = {{2, 8}}, .directory = at, .source = true});
    BOOST_TEST(run_self_test(name, at) == "");
    std::istringstream source(text_of(at + "/" + name + ".c"));
    int runs = 0, calls = 0;
    for (std::string line; std::getline(source, line);)
      if (const std::string run = "  lamina_run(calls, "; line.starts_with(run)) {
        ++runs;
        calls += std::stoi(line.substr(run.size()));
      }
    BOOST_TEST(runs == 1);
    BOOST_TEST(calls >= 2 * layers);
    BOOST_TEST(run(at, CC " -std=c99 -Wall -Wextra -Wpedantic -Werror -I. -c " + name + ".c -o source.o") == "");
  }
}

BOOST_AUTO_TEST_CASE(states_stay_in_the_mutable_weights) {
  // y = sum + table[index], stored as the next sum; an index out of range assigns nothing.
  const auto at = folder("states");
  program p;
  parameter_store states;
  states.add("sum", tensor<float, extents<1>>{10}, state_role::statistic);
  states.add("table", tensor<float, extents<3, 1>>{{1}, {2}, {4}}, state_role::parameter);
  auto sum = p.state("sum", {dtype::float32, {1}}), table = p.state("table", {dtype::float32, {3, 1}});
  auto y = sum + reshape(embedding(table, p.input("index", {dtype::int64, {1}})), {1});
  p.output("y", y);
  p.assign(sum, y);
  bundle::write(p, states, {.name = "counter", .inputs = {{1}}, .directory = at});
  std::ofstream(at + "/counter_main.c") << R"(#include "counter.h"
#include <stdalign.h>
#include <stdio.h>
static alignas(64) uint8_t w[COUNTER_CONSTANT_MEM_SIZE], m[COUNTER_MUTABLE_MEM_SIZE], a[COUNTER_ACTIVATIONS_MEM_SIZE];
static void step(int64_t index) {
  *counter_index(m) = index;
  printf("%d", counter(w, m, a));
  printf(" %g %g\n", *counter_y(m), *counter_sum(m));
}
int main(void) {
  FILE *f = fopen("counter.weights", "rb");
  if (!f || fread(w, 1, sizeof w, f) != sizeof w || counter_self_test(w, m, a)) return 20;
  if (counter_reset(0, m) != LAMINA_BUNDLE_NULL || counter_reset(w, m)) return 21;
  step(0), step(2), step(3), step(1);
  if (counter_reset(w, m)) return 22;
  step(1);
  return 0;
}
)";
  const auto said = run(at, c99 + "counter_main.c -o main.o && " + linked + "main.o counter.o -lm -o main && ./main");
  BOOST_TEST(said.substr(0, 18) == "0 11 11\n0 15 15\n7 ");
  BOOST_TEST(holds(said, " 15\n0 17 17\n0 12 12\n"));
}

BOOST_AUTO_TEST_SUITE_END()
