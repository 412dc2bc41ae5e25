// The results of a run, as a table for people and as JSON for programs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

/// How often images of class `label` were classified as `taken_for`.
struct confusion {
  std::int64_t label = 0, taken_for = 0, count = 0, of = 0;  // of: number of images of the class
};

/// Pairs of classes in descending order of confused images; at most `max` pairs.
std::vector<confusion> max_confused(const std::vector<std::int64_t>& label, const std::vector<std::int64_t>& predicted,
                                    std::size_t max);

struct run_figures {
  double test_accuracy = 0;
  double train_images_per_s = 0;
  double serve_images_per_s[2] = {};  // with one worker, with two
  double fma_rate[2] = {};            // same worker counts, 1e9 FMA/s
  std::size_t bytes_per_reference = 0, shared_bytes = 0;
  double seconds = 0;
  std::int64_t seed = 0, epochs = 0, images = 0;
  int threads = 0;
  std::vector<confusion> confused{};
};

std::string table(const run_figures& f, const std::vector<std::string>& class_names);
std::string json(const run_figures& f);
