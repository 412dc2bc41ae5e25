// Times of single operations, for `lamina bench` and `lamina plan`. Include it after json.h.
#pragma once

namespace tool {

/// The inputs of a net: from files, NAME=FILE.npy, or generated for the given shapes.
std::vector<lamina::any_tensor> inputs_for(const std::string& model, const lamina::ir::program& p,
                                           const std::vector<std::string>& files, std::vector<std::string> shapes);

/// The plans that `run_timed` adds times to, after a run that made them and packed the weights, whose times do not count.
std::vector<lamina::timed_plan> timed_plans_of(lamina::ir::session& net, const std::vector<lamina::any_tensor>& inputs,
                                               std::vector<lamina::any_tensor>& outputs);

/// What one core does at most, measured.
struct core_limits {
  double flops_per_second = 0;  // by multiply-adds of the instruction set in use, without memory
  double bytes_per_second = 0;  // read from memory, beyond the caches
};
core_limits measured_limits();

/// Prints the mean time of each operation of `runs` runs, or adds it to `report`; with limits also which
/// shares of them it reaches. Segments of a net follow one another.
void print_operations(const std::vector<lamina::timed_plan>& plans, std::int64_t runs,
                      const std::optional<core_limits>& limits, json* report);

}  // namespace tool
