/* Tilewise for C: tuned single-precision matrix products. The C++ form, with more to it, is
 * matmul.hpp.
 *
 * Every function returns a status and throws nothing. What went wrong is told in words by
 * tilewise_last_error(), which belongs to the calling thread. */
#ifndef TILEWISE_MATMUL_H
#define TILEWISE_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The values never change. */
typedef enum tilewise_status {
  TILEWISE_OK = 0,
  TILEWISE_INVALID_ARGUMENT =
      1,                  /* a bad size, leading dimension, pointer or layout; C overlaps A or B */
  TILEWISE_NOT_FOUND = 2, /* nothing stored answers the question */
  TILEWISE_UNSUPPORTED = 3,    /* a correct request that this device cannot serve */
  TILEWISE_NO_DEVICE = 4,      /* no driver, no GPU, or no such GPU */
  TILEWISE_DEVICE_ERROR = 5,   /* the driver refused or failed */
  TILEWISE_OUT_OF_MEMORY = 6,  /* host or device memory does not suffice */
  TILEWISE_COMPILER_ERROR = 7, /* no kernel is stored and none can be compiled */
  TILEWISE_DATABASE_ERROR = 8, /* the database cannot be opened or read */
  TILEWISE_IO_ERROR = 9,       /* a file cannot be read or written */
  TILEWISE_INTERNAL_ERROR = 10 /* a fault in Tilewise */
} tilewise_status;

/* How A and B are stored: N = as they are (m x k, k x n), T = transposed. First letter A, second B.
 * All matrices are row-major; C is m x n. */
typedef enum tilewise_layout {
  TILEWISE_NN = 0,
  TILEWISE_NT = 1,
  TILEWISE_TN = 2,
  TILEWISE_TT = 3
} tilewise_layout;

/* The tuned matrix product of one GPU. Any number of threads may use one handle at a time. */
typedef struct tilewise_matmul tilewise_matmul;

typedef struct tilewise_options {
  const char*
      device; /* NULL or "current": this thread's CUDA context, else 0. An index, a UUID, "host" */
  const char* database;   /* NULL: TILEWISE_DB, else the user's data directory */
  const char* nvrtc;      /* NULL: searched for. The run-time compiler's library or its folder */
  int no_compile_missing; /* not 0: never compile; a product for which no kernel is stored fails */
} tilewise_options;

/* `options` may be NULL. On success *matmul is a handle to be ended by tilewise_destroy(). */
tilewise_status tilewise_create(const tilewise_options* options, tilewise_matmul** matmul);

/* Ends a handle, once the work enqueued through it is done. NULL does nothing. */
void tilewise_destroy(tilewise_matmul* matmul);

/* C (m x n) = alpha op(A) op(B) + beta C on device pointers; leading dimensions in elements.
 * Enqueued on `stream` (a CUstream or cudaStream_t; NULL is the default stream). beta = 0 never
 * reads C, alpha = 0 or k = 0 never touches A or B. */
tilewise_status tilewise_sgemm(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                               int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                               const float* b, int64_t ldb, float beta, float* c, int64_t ldc,
                               void* stream);

/* The same on host pointers: copies there and back, and waits. */
tilewise_status tilewise_sgemm_host(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                    int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
                                    const float* b, int64_t ldb, float beta, float* c, int64_t ldc);

/* Loads (and if allowed compiles) now what products of these sizes need when their matrices are
 * tightly packed at 16-byte aligned addresses, so that the first is as fast as the next and can be
 * captured into a CUDA graph. */
tilewise_status tilewise_prepare(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                 int64_t n, int64_t k);

/* Says which stored record would serve such a product and why, as JSON: {"match":"exact" |
 * "nearest" | "default", "distance", "stale", "why", "predicted_us" and "limited_by" (the cost
 * model's; 0 and "" when it cannot tell), "candidate", "record" (null for default)}.
 * Writes at most `capacity` bytes with the closing zero, and the bytes needed for all of it to
 * *needed (may be NULL). TILEWISE_INVALID_ARGUMENT when they do not fit; `text` may be NULL when
 * `capacity` is 0. */
tilewise_status tilewise_explain(tilewise_matmul* matmul, tilewise_layout layout, int64_t m,
                                 int64_t n, int64_t k, char* text, size_t capacity, size_t* needed);

/* What the last call of this thread that did not return TILEWISE_OK had to say: one line, valid
 * until the thread's next call. Empty when there was none. */
const char* tilewise_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
