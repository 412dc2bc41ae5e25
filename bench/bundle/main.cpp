// Bundle of LeNet (problem 15): its size, its cold start, and its speed against the in-process plan.
#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <vector>

#include "arguments.h"
#include "bundle.h"
#include "measure.h"

namespace {

using namespace bench;
using entry = int (*)(const std::uint8_t*, std::uint8_t*, std::uint8_t*);
using region = std::vector<std::uint8_t>;

row bundle_row(const char* shape, const char* unit, const char* floor, const char* goal) {
  row r;
  r.problem = "15 bundle of LeNet";
  r.shape = shape;
  r.unit = unit;
  r.floor = floor;
  r.goal = goal;
  return r;
}

/// Output of a shell command; exits the program if the command fails.
std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  for (int c; pipe && (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  if (!pipe || pclose(pipe) != 0) {
    std::fprintf(stderr, "failed: %s\n", command.c_str());
    std::exit(1);
  }
  return text;
}
std::size_t number_in(const std::string& header, const std::string& name) {
  return std::stoul(header.substr(header.find("#define " + name + " ") + name.size() + 9));
}
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Memory aligned to 64 bytes.
std::uint8_t* aligned(std::size_t bytes) {
  return static_cast<std::uint8_t*>(::operator new(bytes, std::align_val_t(64)));
}

row text_row(const std::string& folder) {
  row r = bundle_row("text of the object file", "KB", "ours <= 64", "ours <= 24");
  r.ours = std::stod(output_of("size '" + folder + "/lenet.o' | awk 'NR == 2 {print $1}'")) / 1024;
  return r;
}

row cold_row(const std::string& folder) {
  row r = bundle_row("a process from its start to its end", "ms", "ours <= 5", "ours <= 2");
  output_of("cd '" + folder +
            "' && " LAMINA_BENCH_CC " -O2 -I. -x c " LAMINA_BENCH_COLD " -x none lenet.o -static -lm -o cold");
  std::string program = folder + "/cold", weights = folder + "/lenet.weights";
  char* words[] = {program.data(), weights.data(), nullptr};
  std::vector<double> times;
  for (int i = 0; i < repetitions(200, 5); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    pid_t child = 0;
    int status = 1;
    if (posix_spawn(&child, words[0], nullptr, nullptr, words, environ) != 0 || waitpid(child, &status, 0) != child ||
        status != 0)
      std::exit(1);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
  }
  const timing t = summary(times);
  r.ours = t.best;
  r.median = t.median;
  return r;
}

row speed_row(const std::string& folder) {
  row r = bundle_row("one image", "us", "ratio >= 0.97", "ratio >= 0.97");
  output_of("cd '" + folder + "' && " LAMINA_BENCH_CC " -shared lenet.o -lm -o lenet.so");
  void* library = dlopen((folder + "/lenet.so").c_str(), RTLD_NOW);
  const auto run = reinterpret_cast<entry>(library ? dlsym(library, "lenet") : nullptr);
  if (!run) std::exit(1);
  const std::string header = text_of(folder + "/lenet.h"), constants = text_of(folder + "/lenet.weights");
  std::uint8_t *weights = aligned(constants.size()), *variables = aligned(number_in(header, "LENET_MUTABLE_MEM_SIZE"));
  std::uint8_t* activations = aligned(number_in(header, "LENET_ACTIVATIONS_MEM_SIZE"));
  std::memcpy(weights, constants.data(), constants.size());
  std::memcpy(variables + number_in(header, "LENET_INPUT_OFFSET"), bundle::image().data(),
              bundle::image().size() * sizeof(float));
  if (run(weights, variables, activations) != 0 ||
      std::memcmp(variables + number_in(header, "LENET_OUTPUT_OFFSET"), bundle::scores().data(),
                  bundle::scores().size() * sizeof(float)) != 0) {
    std::fprintf(stderr, "the results of the bundle and the process differ\n");
    std::exit(1);
  }
  measure(r, [=] { run(weights, variables, activations); },
          {{"the plan of the process", "", "", [] { bundle::run(); }}}, 1e-6, {.pairs = 61});
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments options = parse(argc, argv);
  std::string folder = "/tmp/lamina-bench-bundle-XXXXXX";
  if (!mkdtemp(folder.data())) return 1;
  bundle::write(folder);
  report all;
  for (auto one : {text_row, cold_row, speed_row}) {
    all.add(one(folder));
    show(all.rows().back());
  }
  output_of("rm -r '" + folder + "'");
  all.write(options.out);
}
