#pragma once
#include "device/device.hpp"

namespace tilewise::bench {

/// Packed operands of a problem, all zero, and a call with them.
struct Operands {
  Operands(Device& device, const Problem& p, Stream stream = nullptr)
      : a(device, p.m * p.k * bytes_of(p.a.type)),
        b(device, p.k * p.n * bytes_of(p.b.type)),
        c(device, p.m * p.n * bytes_of(p.c.type)) {
    for (const DeviceBuffer* buffer : {&a, &b, &c})
      device.fill32(buffer->data(), 0, buffer->bytes() / 4, nullptr);
    device.synchronize(nullptr);
    call.a = a.data(), call.b = b.data(), call.c = c.data();
    call.lda = min_lda(p), call.ldb = min_ldb(p), call.ldc = min_ldc(p);
    call.stream = stream;
  }
  DeviceBuffer a, b, c;
  Call call;
};

}  // namespace tilewise::bench
