// Reader of Fashion-MNIST's idx files, gzip or plain, for contenders that cannot use lamina's reader.
#pragma once
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace bench {

struct labeled_images {
  long count = 0, rows = 0, columns = 0;
  std::vector<unsigned char> pixels, labels;
};

/// Bytes of a file after its header; stores the `words` big-endian words of the header in `header`.
inline std::vector<unsigned char> read_idx(const std::string& path, int words, long* header) {
  gzFile file = gzopen((path + ".gz").c_str(), "rb");
  if (!file) file = gzopen(path.c_str(), "rb");
  if (!file) {
    std::fprintf(stderr, "%s[.gz] cannot be read: install dataset-fashion-mnist, or name a directory\n", path.c_str());
    std::exit(2);
  }
  long size = 1;
  for (int i = 0; i < words; ++i) {
    unsigned char bytes[4] = {};
    if (gzread(file, bytes, 4) != 4) std::exit(2);
    header[i] = bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
    if (i > 0) size *= header[i];
  }
  std::vector<unsigned char> data(static_cast<std::size_t>(size));
  const int got = gzread(file, data.data(), static_cast<unsigned>(size));
  gzclose(file);
  if (got != size) std::exit(2);
  return data;
}

/// `part` is "train" or "t10k".
inline labeled_images read_images(const std::string& directory, const std::string& part) {
  labeled_images set;
  long header[4];
  set.pixels = read_idx(directory + "/" + part + "-images-idx3-ubyte", 4, header);
  set.count = header[1];
  set.rows = header[2];
  set.columns = header[3];
  set.labels = read_idx(directory + "/" + part + "-labels-idx1-ubyte", 2, header);
  return set;
}

}  // namespace bench
