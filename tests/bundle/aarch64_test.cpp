// Bundles for aarch64: written here, linked into C programs by Clang and lld, run under qemu. Where these are not
// installed, the program reports it and the test counts as skipped.
#include <boost/test/unit_test.hpp>

#include <sys/wait.h>
#include <cmath>
#include <cstdio>
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
#include "nets.h"

using namespace lamina;
using namespace nets_test;
using namespace bundle_run;

namespace {

#ifndef QEMU
#define QEMU "qemu-aarch64"
#define KERNELS ""
struct skip_without_qemu {
  skip_without_qemu() {
    std::fprintf(stderr,
                 "there are no qemu-aarch64 and g++-aarch64-linux-gnu here, or this build is instrumented; skipped\n");
    std::_Exit(77);
  }
};
BOOST_TEST_GLOBAL_FIXTURE(skip_without_qemu);
#endif

const std::string target = "aarch64-linux-gnu";
const std::string c11 = CC " --target=" + target + " -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -I. -c ";
const std::string linked = CXX " --target=" + target + " -fuse-ld=lld -static -nostdlib++ ";

/// Bundles a model and runs its self-test under qemu, also with no tolerance for rounding.
template <class Model> std::string self_test(const std::string& name, const Model& net,
                                             std::initializer_list<shape> inputs, pass_options passes = {}) {
  const auto at = folder("aarch64_" + name);
  bundle::write(net, {.name = name,
                      .inputs = inputs,
                      .directory = at,
                      .source = true,
                      .target = target,
                      .passes = passes,
                      .tools = {.kernels = KERNELS}});
  std::string capitals = name;
  for (char& c : capitals) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  return run(at, c11 + "-DENTRY=" + name + " -DCAPITALS=" + capitals + " '-DHEADER=\"" + name +
                     ".h\"' " SOURCES "/self_test.c -o main.o && " + linked + "main.o " + name +
                     ".o -lm -o main && " QEMU " ./main " + name + ".weights") +
         run(at, "sed 's/ <= 1e-[0-9f]* \\* max/ == 0/g' " + name + ".c > exact.c && ! cmp -s exact.c " + name +
                     ".c && " CC " --target=" + target + " -O2 -w -I. -c exact.c -o exact.o && " + linked +
                     "main.o exact.o " KERNELS "/" + target +
                     "/liblamina_kernels_neon64.a -lm -o exact && " QEMU " ./exact " + name + ".weights");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bundles_for_aarch64)

// Compiles the kernels again, for one processor.
BOOST_AUTO_TEST_CASE(lenet_gives_the_bits_of_the_same_kernels_here) {
  const auto at = folder("aarch64_lenet");
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 42});
  const auto made = bundle::write(net, {.name = "lenet",
                                        .inputs = {{1, 1, 28, 28}},
                                        .directory = at,
                                        .source = true,
                                        .target = target,
                                        .cpu = "cortex-a72"});
  BOOST_TEST(std::filesystem::file_size(at + "/lenet.weights") == made.constant_bytes);
  const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
  write_bytes(at + "/in", x.data().data(), 784 * 4);
  BOOST_TEST(run(at, c11 + SOURCES "/lenet.c -o main.o && " + linked +
                         "main.o lenet.o -lm -o lenet && " QEMU " ./lenet lenet.weights in out") == "");

  // Close to the results of this process on any instruction set; equal bits with the kernels of the same set.
  const auto bytes = text_of(at + "/out");
  BOOST_REQUIRE(bytes.size() == 40u);
  float got[10], same[10];
  std::memcpy(got, bytes.data(), sizeof got);
  const auto near = net(x);
  for (int i = 0; i < 10; ++i) BOOST_TEST(std::abs(got[i] - near.data()[static_cast<std::size_t>(i)]) < 1e-5f);
  if (machine_has(isa::avx2)) {
    const shape extents{1, 1, 28, 28};
    auto states = net.parameters();
    auto plan = make_plan(net.core().inference(), {&extents, 1}, isa::neon64, net.core().options().passes);
    BOOST_TEST(holds(plan->explain(), "plan for neon64\n"));
    executor here(std::move(plan), &states);
    here.bind_input(0, x.data().data());
    here.bind_output(0, same);
    here.run();
    BOOST_TEST(same_as_file(view<const float>(same, 10), at + "/out"));
  }

  BOOST_TEST(run(at, c11 + "lenet.c -o again.o") == "");
  BOOST_TEST(holds(text_of(at + "/lenet.h"), "for neon64 (aarch64-linux-gnu)"));
  BOOST_TEST(holds(text_of(at + "/lenet.h"), "float may be off by 1e-5 of the output's largest number"));
}

// Sums of integers are exact: every set gives the same bits. Lanes hold filters or pixels; strides.
BOOST_AUTO_TEST_CASE(quantized_nets_give_the_bits_of_this_process) {
  static constexpr auto strided = sequential(
      nn::conv2d{.in_channels = 1, .out_channels = 18, .kernel_size = 3, .stride = 2, .padding = 1}, nn::relu{},
      nn::conv2d{.in_channels = 18, .out_channels = 18, .kernel_size = 3, .padding = 1, .groups = 18}, nn::relu{},
      nn::max_pool2d{.kernel_size = 3, .stride = 2, .padding = 1}, nn::flatten{},
      nn::linear{.in_features = 882, .out_features = 10});
  const auto check = [](const std::string& name, const auto& net) {
    const auto x = random_tensor<images>({1, 1, 28, 28}, 1);
    const std::vector<std::vector<any_tensor>> samples{{random_tensor<images>({9, 1, 28, 28}, 2)}};
    const auto q = quantize(net, profile(net, samples));
    const auto at = folder("aarch64_" + name);
    bundle::write(*q.program, q.states,
                  {.name = "lenet",
                   .inputs = {{1, 1, 28, 28}},
                   .directory = at,
                   .target = target,
                   .tools = {.kernels = KERNELS}});
    write_bytes(at + "/in", x.data().data(), 784 * 4);
    BOOST_TEST(run(at, c11 + SOURCES "/lenet.c -o main.o && " + linked +
                           "main.o lenet.o -lm -o lenet && " QEMU " ./lenet lenet.weights in out") == "");
    const auto expected = program_factory(q.program, q.states).create()(std::vector<any_tensor>{x});
    BOOST_TEST(same_as_file(expected[0].template elements<float>(), at + "/out"));
    BOOST_TEST(
        run(at, c11 + "-DENTRY=lenet -DCAPITALS=LENET '-DHEADER=\"lenet.h\"' " SOURCES "/self_test.c -o main.o && " +
                    linked + "main.o lenet.o -lm -o main && " QEMU " ./main lenet.weights") == "");
  };
  check("quantized", model<lenet, input<"N", 1, 28, 28>>({.seed = 42}));
  check("quantized_strided", model<strided, input<"N", 1, 28, 28>>({.seed = 7}));
}

BOOST_AUTO_TEST_CASE(nets_of_all_kinds_pass_their_self_tests) {
  BOOST_TEST(self_test("perceptron", model<perceptron, input<"N", 4>>(), {{5, 4}}) == "");
  BOOST_TEST(self_test("wide", model<perceptron, input<"N", 4>, policies<element<double>>>(), {{5, 4}}) == "");
  BOOST_TEST(self_test("plain", model<lenet, input<"N", 1, 28, 28>>(), {{3, 1, 28, 28}},
                       {.fuse_elementwise = false, .blocked_layout = false, .reuse_memory = false}) == "");
  BOOST_TEST(self_test("regular", model<regular, input<"N", 1, 6, 6>>(), {{2, 1, 6, 6}}) == "");
  BOOST_TEST(self_test("voice", model<voice, input<"T", "N", 3>>(), {{7, 2, 3}}) == "");
  BOOST_TEST(self_test("decoder", model<decoder, port_input<"input", std::int64_t, "N", "T">>(), {{2, 9}}) == "");
  BOOST_TEST(self_test("encoder", model<encoder, input<"N", "T", 16>>(), {{2, 70, 16}}) == "");
  BOOST_TEST(self_test("depthwise", model<depthwise, input<"N", 3, 20, 20>>(), {{2, 3, 20, 20}}) == "");
  BOOST_TEST(self_test("two_inputs", model<two_inputs, input<"M", "K">, input<"K", "N">>(), {{70, 300}, {300, 50}}) ==
             "");
}

// The code is changed to compare other outputs than those of the net.
BOOST_AUTO_TEST_CASE(the_self_test_can_fail) {
  const auto at = folder("aarch64_wrong");
  model<perceptron, input<"N", 4>> net;
  bundle::write(net, {.name = "net",
                      .inputs = {{5, 4}},
                      .directory = at,
                      .source = true,
                      .target = target,
                      .tools = {.kernels = KERNELS}});
  const std::string sources =
      "sed 's/(mutable_weights + 128, constant_weights + [0-9]*,/(constant_weights + 64, constant_weights + 128,/' "
      "net.c > wrong.c && ! cmp -s net.c wrong.c && ";
  const std::string archive = KERNELS "/" + target + "/liblamina_kernels_neon64.a";
  BOOST_TEST(holds(run(at, sources + c11 + "wrong.c -o wrong.o && " + c11 +
                               "-DENTRY=net -DCAPITALS=NET '-DHEADER=\"net.h\"' " SOURCES "/self_test.c -o main.o && " +
                               linked + "main.o wrong.o " + archive + " -lm -o main && " QEMU " ./main net.weights"),
                   "[status 8 of"));
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_told) {
  const auto at = folder("aarch64_errors");
  model<perceptron, input<"N", 4>> net;
  const bundle::options good{
      .name = "net", .inputs = {{5, 4}}, .directory = at, .target = target, .tools = {.kernels = KERNELS}};
  auto with = [&](auto change) {
    auto o = good;
    change(o);
    return error_of([&] { bundle::write(net, o); });
  };
  BOOST_TEST(holds(with([](auto& o) { o.set = isa::sse2; }),
                   "value_error: bundle `net`: sse2 is an instruction set of x86_64; the target "
                   "`aarch64-linux-gnu` uses neon64"));
  BOOST_TEST(holds(with([](auto& o) { o.tools.sources = "/no/sources", o.tools.kernels = ""; }),
                   "file_error: bundle `net`: the sources of the kernels simd.h are not in /no/sources; name their "
                   "folder in the variable LAMINA_KERNEL_SOURCES or in `tools.sources`"));
  BOOST_TEST(holds(with([](auto& o) { o.tools.compiler = "/no/compiler"; }), "`/no/compiler`: it cannot be started"));
  BOOST_TEST(holds(with([](auto& o) { o.cpu = "no-such-processor"; }), "failed: "));
  const auto without_headers = folder("aarch64_no_headers") + "/clang";
  std::ofstream(without_headers) << "#!/bin/sh\necho \"fatal error: 'string.h' file not found\"\nexit 1\n";
  std::filesystem::permissions(without_headers, std::filesystem::perms::owner_all);
  BOOST_TEST(holds(with([&](auto& o) { o.tools.compiler = without_headers; }),
                   "'string.h' file not found\nthe headers of C and C++ for aarch64-linux-gnu come with the package "
                   "g++-aarch64-linux-gnu"));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", "/no/programs", 1);
  const auto linker = with([](auto&) {}), objcopy = with([](auto& o) { o.tools.linker = "true"; });
  ::setenv("PATH", path.c_str(), 1);
  BOOST_TEST(holds(linker,
                   "error: bundle `net`: no linker for aarch64-linux-gnu found; install "
                   "binutils-aarch64-linux-gnu or lld-19, or name one in the variable LD or in `tools`"));
  BOOST_TEST(holds(objcopy,
                   "no objcopy for aarch64-linux-gnu found; install binutils-aarch64-linux-gnu or llvm-19, or "
                   "name one in the variable OBJCOPY"));
  BOOST_TEST(std::filesystem::is_empty(at));
}

BOOST_AUTO_TEST_SUITE_END()
