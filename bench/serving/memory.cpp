// Memory per further reference model (problem 14): memory of one more reference model of LeNet and of a ResNet-50, by
// the counters of the library and of the kernel.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "measure.h"
#include "process_memory.h"
#include "serving.h"

namespace {

// Adds reference models of a ResNet-50, each of which runs one image.
void large(const auto& add) {
  using namespace bench;
  const int count = repetitions(4);
  constexpr const char* floor = "ours <= 12582912";
  const long without = proportional_bytes();
  const auto first = serving::make_reference(serving::network::resnet50);
  first->classify();
  add("ResNet-50: weights, plan and the first reference that has run, PSS", "bytes",
      static_cast<double>(proportional_bytes() - without), "ours <= 120586240", "smaps_rollup");
  const auto before = serving::handed_out();
  const long resident = proportional_bytes();
  std::vector<std::unique_ptr<serving::reference>> more;
  for (int i = 0; i < count; ++i) {
    more.push_back(serving::make_reference(serving::network::resnet50));
    more.back()->classify();
  }
  const auto bytes = static_cast<double>(serving::handed_out() - before) / count;
  const double pages = static_cast<double>(proportional_bytes() - resident) / count;
  const std::string weights = "weights " + std::to_string(serving::shared_bytes(serving::network::resnet50)) +
                              " bytes, once; its own count " + std::to_string(first->own_bytes());
  add("ResNet-50: a further reference that has run, bytes handed out by the library", "bytes", bytes, floor, weights);
  add("ResNet-50: a further reference that has run, PSS", "bytes", pages, floor,
      "smaps_rollup over " + std::to_string(count) + " references");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const arguments a = parse(argc, argv);
  report all;
  const auto add = [&all](const std::string& shape, const char* unit, double ours, const char* floor,
                          const std::string& note = "") {
    row r;
    r.problem = "14 memory per further reference model";
    r.shape = shape;
    r.unit = unit;
    r.ours = ours;
    r.floor = floor;
    r.note = note;
    r.peers = {measured_later("ONNX Runtime")};
    all.add(std::move(r));
  };

  // Creates what exists only once: weights, packed weights, tables.
  constexpr int warm = 8;
  const int count = repetitions(1000, 10);
  const std::string number = quick ? "10" : "1,000";
  const auto make = [] { return serving::make_reference(serving::network::lenet); };
  std::vector<std::unique_ptr<serving::reference>> references;
  references.reserve(static_cast<std::size_t>(warm + 2 * count));
  for (int i = 0; i < warm; ++i) {
    references.push_back(make());
    references.back()->classify();
  }
  using clock = std::chrono::steady_clock;
  const auto milliseconds = [](clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  double fastest = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto begin = clock::now();
    for (int i = 0; i < count; ++i) references.push_back(make());
    fastest = std::min(fastest, milliseconds(clock::now() - begin));
    if (round == 4) break;
    for (int i = 0; i < count; ++i) references.pop_back();
  }
  add("LeNet: " + number + " references created", "ms", fastest, "ours <= 50");

  const auto before = serving::handed_out();
  const long resident = proportional_bytes();
  const auto first_runs = [&] {
    const auto begin = clock::now();
    for (int i = 0; i < count; ++i) references[warm + static_cast<std::size_t>(i)]->classify();
    return milliseconds(clock::now() - begin);
  };
  double run = first_runs();
  const auto bytes = static_cast<double>(serving::handed_out() - before) / count;
  const double pages = static_cast<double>(proportional_bytes() - resident) / count;
  const std::string weights = "weights " + std::to_string(serving::shared_bytes(serving::network::lenet)) +
                              " bytes, once; its own count " + std::to_string(references[warm]->own_bytes());
  add("LeNet: a further reference that has run, bytes handed out by the library", "bytes", bytes, "ours <= 131072",
      weights);
  add("LeNet: a further reference that has run, PSS", "bytes", pages, "ours <= 131072",
      "smaps_rollup over " + std::to_string(count) + " references");
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < count; ++i) {
      auto& r = references[warm + static_cast<std::size_t>(i)];
      r.reset();
      r = make();
    }
    run = std::min(run, first_runs());
  }
  add("LeNet: the first run of a reference, " + number + " of them", "ms", run, "");
  references.clear();
  large(add);
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
