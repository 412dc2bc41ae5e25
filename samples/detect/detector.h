// A detector from an ONNX file. `detector.cpp` alone imports the library.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct detection {
  float left = 0, top = 0, right = 0, bottom = 0, score = 0;  // corners in pixels
  std::int64_t label = 0;
};

/// A model: float32 pictures [1, 1, H, W] of brightness 0 to 1 -> boxes [n, 4] (top, left, bottom, right), scores [n], labels [n] of
/// int64, in this order. `n` follows from the picture, as NonMaxSuppression decides.
class detector {
 public:
  /// Errors: std::exception with what is wrong with the file, or with the model as a detector.
  explicit detector(const std::string& file);
  ~detector();
  unsigned width() const;
  unsigned height() const;

  /// What one thread detects with; its weights and plans are those of all.
  class reference {
   public:
    explicit reference(const detector& of);
    ~reference();
    /// Bytes of brightness, row by row.
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
