// An object detector loaded from an ONNX file. Only `detector.cpp` imports the library.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct detection {
  float left = 0, top = 0, right = 0, bottom = 0, score = 0;  // corners in pixels
  std::int64_t label = 0;
};

/// A detection model. Input: float32 picture [1, 1, H, W], brightness 0 to 1. Outputs, in this order: boxes [n, 4]
/// (top, left, bottom, right), scores [n], int64 labels [n]. NonMaxSuppression determines `n` from the picture.
class detector {
 public:
  /// Errors: std::exception, whose message says why the file is invalid or the model is not a detector.
  explicit detector(const std::string& file);
  ~detector();
  unsigned width() const;
  unsigned height() const;

  /// Detector of one thread; all references share weights and plans.
  class reference {
   public:
    explicit reference(const detector& of);
    ~reference();
    /// `pixels`: brightness, one byte per pixel, row by row.
    std::vector<detection> operator()(const std::vector<std::uint8_t>& pixels);

   private:
    struct implementation;
    std::unique_ptr<implementation> impl_;
  };

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Writes a model that finds bright (label 0) and dark (label 1) squares of 8 pixels in pictures of 64 x 64.
void write_detector(const std::string& file);
