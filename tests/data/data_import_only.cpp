// Uses a data set in a program without any header.
import lamina;

double sum_of_shard(const lamina::image_dataset& data, int worker, int workers, long long& labels) {
  double sum = 0;
  labels = 0;
  for (auto [image, label] : lamina::shard(data, worker, workers)) {
    for (float x : image.data()) sum += static_cast<double>(x);
    labels = labels * 10 + label;
  }
  return sum;
}

int count_of(const lamina::image_dataset& data) {
  int n = 0;
  for (auto [image, label] : data) n += image.extent(1) == 28 && label >= 0;
  return n;
}
