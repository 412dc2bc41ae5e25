// Overheads (problem 20): cost of small calls beyond their computation.
#if LAMINA_BENCH_EIGEN
#include <Eigen/Core>
#endif

#include "arguments.h"
#include "measure.h"
#include "small_calls.h"

namespace {

using namespace bench;

contender eigen() {
#if LAMINA_BENCH_EIGEN
  const Eigen::MatrixXf a = Eigen::MatrixXf::Random(4, 4), b = Eigen::MatrixXf::Random(4, 4);
  const std::string version = std::to_string(EIGEN_WORLD_VERSION) + "." + std::to_string(EIGEN_MAJOR_VERSION) + "." +
                              std::to_string(EIGEN_MINOR_VERSION);
  return {"Eigen", version, "", [a, b] {
            const Eigen::MatrixXf r = (a.array() * b.array() + a.array()).matrix();
            __asm__ volatile("" ::"r"(r.data()) : "memory");
          }};
#else
  return {"Eigen", "", "", {}};
#endif
}

row measured(const std::string& shape, const call& run, const std::vector<contender>& peers, const char* floor,
             const char* goal) {
  row r;
  r.problem = "20 overheads";
  r.shape = shape;
  r.unit = "ns";
  r.floor = floor;
  r.goal = goal;
  sampling often;
  often.pairs = 25;
  measure(r, run, peers, 1e-9, often);
  return r;
}

row slow(const std::string& shape, const call& run, const char* floor, const char* goal) {
  row r;
  r.problem = "20 overheads";
  r.shape = shape;
  r.unit = "ms";
  r.floor = floor;
  r.goal = goal;
  sampling often;
  often.pairs = 15;
  measure(r, run, {}, 1e-3, often);
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  report all;
  all.add(measured("evaluate(a * b + a), 4x4, seen before", overheads::evaluate_small, {eigen()}, "ours <= 100",
                   "ours <= 60"));
  all.add(measured("f(x, w, out) of a formula, 4x4", overheads::formula_small, {}, "ours <= 30", "ours <= 15"));

  const double steps = static_cast<double>(overheads::small_steps());
  const contender by_hand{"the kernels alone", "lamina", "", overheads::call_small_kernels};
  row whole = measured("a bound run per step, with its kernel", overheads::run_small_steps, {by_hand}, "", "");
  for (auto* value : {&whole.ours, &whole.median, &whole.peers[0].value, &whole.peers[0].median})
    *value = **value / steps;
  whole.probe.reset();
  row net = whole;
  net.shape = "a bound run per step, beside its kernel";
  net.ours = std::max(0.0, *whole.ours - *whole.peers[0].value);
  net.median.reset();
  net.ratio.reset();
  net.peers.clear();
  net.floor = "ours <= 10";
  net.goal = "ours <= 5";
  net.note = "the difference to the same kernels called by hand";
  all.add(std::move(whole));
  all.add(std::move(net));
  row made = measured("a net made at run time, per operation, with its kernel", overheads::run_small_net, {},
                      "ours <= 30", "ours <= 10");
  for (auto* value : {&made.ours, &made.median})
    *value = **value / static_cast<double>(overheads::small_net_operations());
  made.probe.reset();
  made.note = "21 operations on 1x4 and 4x4 in one program: matmul, add and relu in turns";
  all.add(std::move(made));
  row named = measured("the same as a net by name in a workspace, per operation, with its kernel",
                       overheads::run_named_net, {}, "ours <= 30", "ours <= 10");
  for (auto* value : {&named.ours, &named.median})
    *value = **value / static_cast<double>(overheads::small_net_operations());
  named.probe.reset();
  named.note = "a run looks up the net, its blobs' types and their memory";
  all.add(std::move(named));
  all.add(slow("a net of 1,000 operations: built, planned, run once", overheads::build_named_net, "ours <= 20",
               "ours <= 10"));
  all.add(slow("Caffe2's toy regression: 1,000 runs of batch 64", overheads::run_toy_regression, "ours <= 20",
               "ours <= 5"));
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
