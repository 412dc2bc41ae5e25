// Networks compiled ahead of time: a plan written out as an object file that runs with no library at all. The kernels
// come from the library's own archives, so the bits are the same as in the process.
export module lamina.bundle;
export import :write;
