// A data type of the user's, for snippets. Include it after `import lamina;`.
#pragma once

struct samples {
  using evaluation_mode = lamina::lazy;
  using element_type = float;
  using extents_type = lamina::extents<lamina::dyn>;
  lamina::shape shape() const { return {3}; }
#ifndef WITHOUT_READ
  void read(lamina::view<float> out) const { out[0] = 1; }
#endif
};
