/* Tilewise for C: tuned matrix products. The C++ form is matmul.hpp.
 *
 * Every function returns a status and throws nothing. What went wrong is told in words by
 * tilewise_last_error(), which belongs to the calling thread. */
#ifndef TILEWISE_MATMUL_H
#define TILEWISE_MATMUL_H

#include <stddef.h>
#include <stdint.h>

/* C's enums hold every int, C++'s only with this: a number that stands for nothing is an error with
 * words, not undefined behaviour. */
#ifdef __cplusplus
#define TILEWISE_INT : int
extern "C" {
#else
#define TILEWISE_INT
#endif

/* The values never change. */
typedef enum tilewise_status {
  TILEWISE_OK = 0,
  TILEWISE_INVALID_ARGUMENT =
      1,                  /* a bad size, leading dimension, pointer or layout; C overlaps A or B */
  TILEWISE_NOT_FOUND = 2, /* nothing stored answers the question */
  TILEWISE_UNSUPPORTED = 3,    /* a correct request that this device cannot serve */
  TILEWISE_NO_DEVICE = 4,      /* no driver, no GPU, or no such GPU */
  TILEWISE_DEVICE_ERROR = 5,   /* the driver, or the system around it, refused or failed */
  TILEWISE_OUT_OF_MEMORY = 6,  /* host or device memory does not suffice */
  TILEWISE_COMPILER_ERROR = 7, /* no kernel is stored and none can be compiled */
  TILEWISE_DATABASE_ERROR = 8, /* the database cannot be opened or read */
  TILEWISE_IO_ERROR = 9,       /* a file cannot be read or written */
  TILEWISE_INTERNAL_ERROR = 10 /* a fault in Tilewise */
} tilewise_status;

/* How A and B are stored: N = as they are (m x k, k x n), T = transposed. First letter A, second B.
 * All matrices are row-major; C is m x n. */
typedef enum tilewise_layout TILEWISE_INT {
  TILEWISE_NN = 0,
  TILEWISE_NT = 1,
  TILEWISE_TN = 2,
  TILEWISE_TT = 3
} tilewise_layout;

/* Element types. F16 and BF16 are 16 bits, E4M3 and E5M2 8 bits, as CUDA's types of these names;
 * I32 is a result only. */
typedef enum tilewise_type TILEWISE_INT {
  TILEWISE_F32 = 0,
  TILEWISE_F64 = 1,
  TILEWISE_F16 = 2,
  TILEWISE_BF16 = 3,
  TILEWISE_I8 = 4,
  TILEWISE_I32 = 5,
  TILEWISE_E4M3 = 6,
  TILEWISE_E5M2 = 7
} tilewise_type;

/* How f32 may be computed. STRICT: every product and sum rounded once, as IEEE says. TF32: operands
 * are rounded to 11 bits first. F32X3: three TF32 products of split operands, about f32's accuracy.
 * All other types know STRICT alone. */
typedef enum tilewise_math TILEWISE_INT {
  TILEWISE_STRICT = 0,
  TILEWISE_TF32 = 1,
  TILEWISE_F32X3 = 2
} tilewise_math;

/* The tuned matrix product of one GPU. Any number of threads may use one handle at a time. After
 * fork() it belongs to the parent: in the child its functions return TILEWISE_DEVICE_ERROR, ending
 * it releases nothing, and the child creates its own. */
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

/* One operand packed for its kernel, see tilewise_pack_b(). Any number of threads may use one. */
typedef struct tilewise_packed tilewise_packed;

/* What is asked: C (m x n) = alpha op(A) op(B) + beta C. Zero-initialised: nn, f32, strict. */
typedef struct tilewise_problem {
  tilewise_layout layout;
  int64_t m, n, k;
  int64_t batch;         /* products in one call; 0 counts as 1 */
  tilewise_type operand; /* A's and B's type */
  tilewise_type result;  /* C's: the same, or I32 for I8; F32 for 16 bits; F32, F16, BF16 for 8 */
  tilewise_math math;
} tilewise_problem;

/* One call of a problem. Leading dimensions and strides in elements; matrix i of a batch is at
 * a + i stride_a. alpha and beta are values of the accumulator's type (f32; f64 for F64; whole
 * numbers for I8), unless alpha_device or beta_device names one in device memory. */
typedef struct tilewise_call {
  const void* a;
  const void* b;
  void* c;
  int64_t lda, ldb, ldc;
  int64_t stride_a, stride_b, stride_c;
  double alpha, beta;
  const void* alpha_device;
  const void* beta_device;
  const tilewise_packed* packed_a; /* NULL, or A (B) packed; a, lda, stride_a still name it */
  const tilewise_packed* packed_b;
  void* stream;
} tilewise_call;

/* Any product on device pointers, enqueued on the call's stream. TILEWISE_INVALID_ARGUMENT for
 * types that do not go together (the words list those that do), TILEWISE_UNSUPPORTED for a type or
 * mode that this device cannot do. */
tilewise_status tilewise_multiply(tilewise_matmul* matmul, const tilewise_problem* problem,
                                  const tilewise_call* call);

/* The same on host pointers: copies there and back, and waits. Neither scalars on the device nor
 * packed operands; the stream does not count. */
tilewise_status tilewise_multiply_host(tilewise_matmul* matmul, const tilewise_problem* problem,
                                       const tilewise_call* call);

/* tilewise_prepare() and tilewise_explain() for any problem. */
tilewise_status tilewise_prepare_problem(tilewise_matmul* matmul, const tilewise_problem* problem);
tilewise_status tilewise_explain_problem(tilewise_matmul* matmul, const tilewise_problem* problem,
                                         char* text, size_t capacity, size_t* needed);

/* Packs A (B) once for many products: of `problem`, and of others whose kernel wants the same form
 * of it (another m, say). The original must stay as it was; products whose kernel wants another
 * form read it. Runs on `stream` and is done on return. On success *packed is a handle to be ended
 * by tilewise_packed_destroy(), after the products that use it are done. */
tilewise_status tilewise_pack_a(tilewise_matmul* matmul, const tilewise_problem* problem,
                                const void* a, int64_t lda, int64_t stride_a, void* stream,
                                tilewise_packed** packed);
tilewise_status tilewise_pack_b(tilewise_matmul* matmul, const tilewise_problem* problem,
                                const void* b, int64_t ldb, int64_t stride_b, void* stream,
                                tilewise_packed** packed);

/* Device memory that a packed operand takes; 0 when its kernel reads the original, and for NULL. */
int64_t tilewise_packed_bytes(const tilewise_packed* packed);

/* NULL does nothing. */
void tilewise_packed_destroy(tilewise_packed* packed);

/* The mode in which `problem` (its own mode does not count) is fastest with an error of at most
 * `accuracy`, relative to |A| |B| element by element. TILEWISE_INVALID_ARGUMENT when none is exact
 * enough; the words name every mode's bound. */
tilewise_status tilewise_fastest_within(tilewise_matmul* matmul, const tilewise_problem* problem,
                                        double accuracy, tilewise_math* math);

/* What the last call of this thread that did not return TILEWISE_OK had to say: one line, valid
 * until the thread's next call. Empty when there was none. */
const char* tilewise_last_error(void);

#ifdef __cplusplus
}
#endif
#undef TILEWISE_INT

#endif
