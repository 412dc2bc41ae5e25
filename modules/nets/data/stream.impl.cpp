module lamina:data.stream.impl;
import :core;
import :data.stream;
import lamina.std;

namespace lamina {

void detail::check_stream(const sample_stream_options& o) {
  text t;
  if (o.batch < 1) raise(error_kind::value, t << "stream: `batch` is " << o.batch << "; expected 1 sample or more");
  if (o.shuffle < 1) raise(error_kind::value, t << "stream: `shuffle` is " << o.shuffle << "; expected 1 or more");
}

}  // namespace lamina
