// Addresses of rows as simt counts them. See simt_tiles.cuh.
#pragma once
#include "dialect.cuh"

// The same address, of which the compiler no longer knows how it was found: what is counted from it
// comes by one addition, or by none where the distance is known. Else it keeps many addresses in
// registers, or finds each anew.
DEVICE const float* from_here(const float* at) {
#ifdef TILEWISE_HOST
  return at;
#else
  unsigned long long address = __cvta_generic_to_global(at);
  asm("" : "+l"(address));
  return static_cast<const float*>(__cvta_global_to_generic(address));
#endif
}
DEVICE float* from_here_shared(float* at) {
#ifdef TILEWISE_HOST
  return at;
#else
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(at));
  asm("" : "+r"(address));
  return static_cast<float*>(__cvta_shared_to_generic(address));
#endif
}
