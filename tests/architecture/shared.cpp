// Two archives of this file share the weak symbols of an inline function and a template; a test checks that this is
// refused.
template <class T> T twice(T x) { return x + x; }
inline int once(int x) { return x; }

float twice_of(float x) { return twice(x) + static_cast<float>(once(1)); }
