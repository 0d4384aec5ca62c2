/* Tilewise for C: tuned matrix products. The C++ interface is matmul.hpp.
 *
 * C (m x n) = alpha op(A) op(B) + beta C. All matrices are row-major; leading dimensions and batch
 * strides are in elements.
 *
 * Column-major matrices: a column-major matrix is its transpose in row-major order, and
 * C^T = op(B)^T op(A)^T. So swap A and B (each with its leading dimension and stride), swap m and
 * n, and swap the two letters of the layout: nt becomes tn, tn becomes nt, nn and tt stay. For
 * example, C = A B^T of column-major matrices, which BLAS calls 'N', 'T':
 *   tilewise_sgemm(handle, TILEWISE_TN, n, m, k, alpha, b, ldb, a, lda, beta, c, ldc, stream);
 *
 * A function that can fail returns a status; tilewise_last_error() returns its message, per thread.
 * No function throws.
 *
 * A struct begins with its size, because later versions add fields at its end. Initialise it with
 * its TILEWISE_..._INIT, then set fields. */
#ifndef TILEWISE_MATMUL_H
#define TILEWISE_MATMUL_H

#include <stddef.h>
#include <stdint.h>

#include "tilewise/export.h"
#include "tilewise/version.h"

/* In C an enum holds every int; in C++ it does so only with this underlying type. An unknown number
 * is then an error with a message, not undefined behaviour. */
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
  TILEWISE_NOT_FOUND = 2, /* no record is stored for the lookup */
  TILEWISE_UNSUPPORTED = 3,    /* a correct request that this device cannot serve */
  TILEWISE_NO_DEVICE = 4,      /* no driver, no GPU, or no such GPU */
  TILEWISE_DEVICE_ERROR = 5,   /* the driver, or the system around it, refused or failed */
  TILEWISE_OUT_OF_MEMORY = 6,  /* host or device memory does not suffice */
  TILEWISE_COMPILER_ERROR = 7, /* no kernel is stored and none can be compiled */
  TILEWISE_DATABASE_ERROR = 8, /* the database cannot be opened or read */
  TILEWISE_IO_ERROR = 9,       /* a file cannot be read or written */
  TILEWISE_INTERNAL_ERROR = 10 /* a fault in Tilewise */
} tilewise_status;

/* How A and B are stored: N = as m x k (A) and k x n (B), T = transposed. The first letter is for
 * A, the second for B. C is m x n. */
typedef enum tilewise_layout TILEWISE_INT {
  TILEWISE_NN = 0,
  TILEWISE_NT = 1,
  TILEWISE_TN = 2,
  TILEWISE_TT = 3
} tilewise_layout;

/* Element types. F16 and BF16 have 16 bits, E4M3 and E5M2 have 8 bits, as CUDA's types of these
 * names. I32 is a result only. I4 is a type of B only: two numbers of 4 bits in a byte, the first
 * in the low bits; leading dimensions and strides are even. */
typedef enum tilewise_type TILEWISE_INT {
  TILEWISE_F32 = 0,
  TILEWISE_F64 = 1,
  TILEWISE_F16 = 2,
  TILEWISE_BF16 = 3,
  TILEWISE_I8 = 4,
  TILEWISE_I32 = 5,
  TILEWISE_E4M3 = 6,
  TILEWISE_E5M2 = 7,
  TILEWISE_I4 = 8
} tilewise_type;

/* The arithmetic of products. For F32: STRICT rounds every multiply-add once, as IEEE's fused
 * multiply-add; TF32 first rounds operands to 11 bits; F32X3 sums three TF32 products of split
 * operands, with about f32's accuracy. For E4M3 and E5M2: STRICT adds sums of 128 products in f32;
 * with FAST the sums over all of k may be the tensor cores' own (about 14 bits on Hopper). For F64
 * and F32: EMULATED may compute by 8-bit integers (F32: 16-bit floats), within an error that the
 * GPU checks (MathMode in tilewise/dtype.hpp). All other types have STRICT only. */
typedef enum tilewise_math TILEWISE_INT {
  TILEWISE_STRICT = 0,
  TILEWISE_TF32 = 1,
  TILEWISE_F32X3 = 2,
  TILEWISE_FAST = 3,
  TILEWISE_EMULATED = 4
} tilewise_math;

/* Whether the products of a batch have different numbers of rows, in device memory (Grouping in
 * problem.hpp). */
typedef enum tilewise_grouping TILEWISE_INT {
  TILEWISE_NOT_GROUPED = 0,
  TILEWISE_ROWS = 1,   /* A and C have the rows of all products one after another */
  TILEWISE_COUNTS = 2, /* each product has an A and a C of m rows, of which the first ones count */
  TILEWISE_DEPTH = 3 /* A and B (layout tn) have the steps of k of all products one after another */
} tilewise_grouping;

/* How many rows the products of a group are expected to have; any numbers are computed. */
typedef enum tilewise_distribution TILEWISE_INT {
  TILEWISE_EVEN = 0,
  TILEWISE_ZIPF = 1,
  TILEWISE_ONE_HOT = 2
} tilewise_distribution;

/* An option that is on or off. */
typedef enum tilewise_bool TILEWISE_INT {
  TILEWISE_DEFAULT = 0, /* the default of the option */
  TILEWISE_YES = 1,
  TILEWISE_NO = 2
} tilewise_bool;

/* What the first product of a problem does if the problem was not tuned. */
typedef enum tilewise_on_miss TILEWISE_INT {
  TILEWISE_SERVE = 0,         /* serves it by prediction or by a default */
  TILEWISE_RECORD = 1,        /* the same, and appends the problem to a list file */
  TILEWISE_ERROR_ON_MISS = 2, /* returns TILEWISE_NOT_FOUND */
  TILEWISE_TUNE_ON_MISS = 3   /* tunes it first, which takes tune_seconds or more */
} tilewise_on_miss;

/* A CUDA stream: CUstream and cudaStream_t are this type. NULL is the default stream. */
typedef struct CUstream_st* tilewise_stream;

/* The version of the library that the program is linked with: 100 and "0.1.0". The version of this
 * header is in version.h. */
TILEWISE_API int tilewise_version(void);
TILEWISE_API const char* tilewise_version_text(void);

/* The tuned matrix product of one GPU. Thread-safe: any number of threads may use one handle at the
 * same time. After fork() a handle belongs to the parent: in the child its functions return
 * TILEWISE_DEVICE_ERROR and destroying it releases nothing. The child creates its own. */
typedef struct tilewise_matmul tilewise_matmul;

typedef struct tilewise_options {
  size_t struct_size;   /* sizeof(tilewise_options) */
  const char* device;   /* NULL or "current": this thread's CUDA context, else 0. An index, a UUID,
                           "host" or "cpu" */
  const char* database; /* NULL: TILEWISE_DB, otherwise the user's data directory */
  const char* nvrtc;    /* the run-time compiler's library or its folder; NULL: searched for */
  /* Whether a product may compile its kernel if none is stored (about 0.3 s, once). DEFAULT is YES.
   * With NO such a product returns TILEWISE_COMPILER_ERROR. */
  tilewise_bool compile_missing;
  /* Whether to use a database and a cache that other users own or may write; their images run as
   * part of this program. DEFAULT is NO unless TILEWISE_TRUST_FILES=1 is in the environment. */
  tilewise_bool trust_files;
  /* What the first product of a problem does if it was not tuned; see OnMiss in matmul.hpp. */
  tilewise_on_miss on_miss;
  int32_t reserved;        /* 0 */
  const char* missed_list; /* the file for TILEWISE_RECORD; NULL: next to the database */
  const char* bundle;      /* a file of `autotune bundle`, read after the database; NULL: none */
  /* For TILEWISE_TUNE_ON_MISS: the budget of one problem's search in seconds; 0: 10. */
  double tune_seconds;
  const char* autotune; /* the program `autotune`; NULL: next to the library, otherwise on PATH */
  /* The most device memory in bytes that one product on host pointers uses. 0: the free memory less
   * 1/16 (at most 512 MiB). Memory under a limit stays allocated for the next product. */
  int64_t host_memory_limit;
} tilewise_options;

#define TILEWISE_OPTIONS_INIT                                                       \
  {                                                                                 \
    sizeof(tilewise_options), NULL, NULL, NULL, TILEWISE_DEFAULT, TILEWISE_DEFAULT, \
        TILEWISE_SERVE, 0, NULL, NULL, 0, NULL, 0                                   \
  }

/* Creates a handle, which tilewise_destroy() destroys. `options` may be NULL: the defaults. *matmul
 * is set on success. */
TILEWISE_API tilewise_status tilewise_create(const tilewise_options* options,
                                             tilewise_matmul** matmul);

/* Destroys a handle after the work enqueued through it is done. NULL does nothing. */
TILEWISE_API void tilewise_destroy(tilewise_matmul* matmul);

/* C (m x n) = alpha op(A) op(B) + beta C in f32 on device pointers, enqueued on `stream`. beta = 0
 * never reads C; alpha = 0 or k = 0 never reads A or B. */
TILEWISE_API tilewise_status tilewise_sgemm(tilewise_matmul* matmul, tilewise_layout layout,
                                            int64_t m, int64_t n, int64_t k, float alpha,
                                            const float* a, int64_t lda, const float* b,
                                            int64_t ldb, float beta, float* c, int64_t ldc,
                                            tilewise_stream stream);

/* The same on host pointers: copies to the device and back, and waits. */
TILEWISE_API tilewise_status tilewise_sgemm_host(tilewise_matmul* matmul, tilewise_layout layout,
                                                 int64_t m, int64_t n, int64_t k, float alpha,
                                                 const float* a, int64_t lda, const float* b,
                                                 int64_t ldb, float beta, float* c, int64_t ldc);

/* Loads (and if necessary compiles) the kernels of strict f32 products of these sizes now, so that
 * the first product is as fast as the next and can be captured into a CUDA graph. The matrices must
 * be tightly packed at 16-byte aligned addresses; tilewise_prepare_problem() takes any other
 * alignment. */
TILEWISE_API tilewise_status tilewise_prepare(tilewise_matmul* matmul, tilewise_layout layout,
                                              int64_t m, int64_t n, int64_t k);

/* Writes the stored record that would serve such a product, and the reason, as JSON: {"match":
 * "exact", "predicted" or "default", "distance", "stale", "why", "predicted_us" and "limited_by"
 * (the cost model's; 0 and "" if not known), "candidate", "record" (null for default)}. Writes at
 * most `capacity` bytes, including the closing zero. *needed is the length of the whole text with
 * its closing zero; `needed` may be NULL. Returns TILEWISE_INVALID_ARGUMENT if the text does not
 * fit. `text` may be NULL if `capacity` is 0. */
TILEWISE_API tilewise_status tilewise_explain(tilewise_matmul* matmul, tilewise_layout layout,
                                              int64_t m, int64_t n, int64_t k, char* text,
                                              size_t capacity, size_t* needed);

/* One operand packed for its kernel, see tilewise_pack_b(). Any number of threads may use one at
 * the same time. */
typedef struct tilewise_packed tilewise_packed;

/* A caller's arithmetic between the sums of a product and C (docs/epilogues.md), parsed:
 *   "x = acc + bias[j]; aux[i,j] = x; gelu_tanh(x) + residual[i,j]"
 * acc is alpha op(A) op(B) + beta C, the last expression is stored in C, and the other names are
 * operands. Immutable: any number of threads may use one. */
typedef struct tilewise_epilogue tilewise_epilogue;

/* Parses `text`. *epilogue is set on success; tilewise_epilogue_destroy() destroys it, also while
 * products with it run. TILEWISE_INVALID_ARGUMENT points into a bad text. */
TILEWISE_API tilewise_status tilewise_epilogue_create(const char* text,
                                                      tilewise_epilogue** epilogue);
/* Destroys an epilogue. NULL does nothing. */
TILEWISE_API void tilewise_epilogue_destroy(tilewise_epilogue* epilogue);
/* The number of operands, 8 at most; 0 for NULL. */
TILEWISE_API int tilewise_epilogue_operands(const tilewise_epilogue* epilogue);
/* Sets *slot to the place of the operand with this name in a call's operands. TILEWISE_NOT_FOUND
 * for another name; the message lists the names. */
TILEWISE_API tilewise_status tilewise_epilogue_slot(const tilewise_epilogue* epilogue,
                                                    const char* name, int* slot);

/* An operand of an epilogue, in elements: name[i,j] m x n with leading dimension `ld`, name[i] m
 * elements, name[j] n elements, a scalar one element; all in device memory. A scalar may be `value`
 * instead, with `data` NULL. Scales and zero points of blocks of k, as name[i,k/128], are matrices
 * with leading dimension `ld` (epilogue.hpp). `stride` lies between the operands of two products of
 * a batch; 0: one for all. What is written may share no element with A, B, C or another operand;
 * what is read may be C itself, with its type, leading dimension and stride. */
typedef struct tilewise_operand {
  void* data;
  int64_t ld, stride;
  double value;
} tilewise_operand;

/* A problem: C (m x n) = alpha op(A) op(B) + beta C, and what an epilogue makes of it. Defaults:
 * nn, f32, strict, one product, no epilogue. */
typedef struct tilewise_problem {
  size_t struct_size; /* sizeof(tilewise_problem) */
  tilewise_layout layout;
  int64_t m, n, k;
  int64_t batch;         /* products in one call; 0 counts as 1 */
  tilewise_type operand; /* type of A, and of B unless operand_b states it */
  tilewise_type
      result; /* type of C: the same, or I32 for I8; F32 for 16 bits; F32, F16, BF16 for 8 */
  tilewise_math math;
  /* The largest power of two up to 16 (bytes) that divides the address, the leading dimension and
   * the batch stride of A (B, C). 0: that of a tightly packed matrix at a 16-byte aligned address.
   * Products take the alignment from their call and ignore these, except for batches by
   * pointers. */
  int32_t alignment_a, alignment_b, alignment_c;
  /* 1: a batch by pointers. The call's a, b and c are arrays in device memory of `batch` pointers
   * to matrices in device memory; strides are ignored. The alignments are then guarantees of the
   * caller for all addresses in an array; 0: one element. */
  int32_t pointers;
  /* 1: a batch-invariant product (docs/invariance.md): the bits of a row of C do not depend on m,
   * the batch, or what else the product has. */
  int32_t invariant;
  const tilewise_epilogue* epilogue; /* NULL: none */
  /* Of a grouped product: `batch` is the number of products. m is the rows of A and C; with
   * TILEWISE_DEPTH k is that of all products. */
  tilewise_grouping grouping;
  tilewise_distribution distribution;
  /* Type of B where it is narrower than A's, as of weights: I4, I8 or E4M3 beside an A of F16 or
   * BF16. 0: A's. */
  tilewise_type operand_b;
  int32_t reserved; /* 0 */
} tilewise_problem;

#define TILEWISE_PROBLEM_INIT                                                                      \
  {                                                                                                \
    sizeof(tilewise_problem), TILEWISE_NN, 0, 0, 0, 0, TILEWISE_F32, TILEWISE_F32,                 \
        TILEWISE_STRICT, 0, 0, 0, 0, 0, NULL, TILEWISE_NOT_GROUPED, TILEWISE_EVEN, TILEWISE_F32, 0 \
  }

/* One call of a problem. Matrix i of a batch is at a + i stride_a, or for a batch by pointers at
 * the i-th pointer of the array a. alpha and beta have values of the accumulator's type (f32; f64
 * for F64; whole numbers for I8). If alpha_device (beta_device) is set, the kernel reads the value
 * from that device address instead; the value may not change before the product is done. */
typedef struct tilewise_call {
  size_t struct_size; /* sizeof(tilewise_call) */
  const void* a;
  const void* b;
  void* c;
  int64_t lda, ldb, ldc;
  int64_t stride_a, stride_b, stride_c;
  double alpha, beta; /* TILEWISE_CALL_INIT: 1 and 0 */
  const void* alpha_device;
  const void* beta_device;
  const tilewise_packed* packed_a; /* NULL, or A packed; a, lda, stride_a still describe A */
  const tilewise_packed* packed_b; /* NULL, or B packed */
  tilewise_stream stream;
  const tilewise_operand* operands; /* of the problem's epilogue, by slot; read during the call */
  int64_t operand_count;
  void* workspace; /* NULL, or device memory for this product alone, aligned to 256 bytes, */
  int64_t workspace_bytes; /* which it uses where it needs a workspace and this suffices */
  /* Of a grouped product, in device memory: the end of each product's rows (TILEWISE_ROWS), or
   * their number (TILEWISE_COUNTS). The host does not read it. Numbers outside of 0 to m (k) count
   * as the nearest inside. */
  const int32_t* group_rows;
  /* Of an emulated product in F64: an element may be off by this much relative to |A| |B|, if that
   * is more than the mode's bound; where the native product runs, its bound holds. The product
   * then takes less time. 0 to 1; 0: the mode's bound. */
  double accuracy;
} tilewise_call;

#define TILEWISE_CALL_INIT                                                                       \
  {                                                                                              \
    sizeof(tilewise_call), NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, 1.0, 0.0, NULL, NULL, NULL, NULL, \
        NULL, NULL, 0, NULL, 0, NULL, 0.0                                                        \
  }

/* Any product on device pointers, enqueued on the call's stream. TILEWISE_INVALID_ARGUMENT for an
 * unsupported combination of types (the message lists the supported ones), TILEWISE_UNSUPPORTED for
 * a type or mode that this device does not have. */
TILEWISE_API tilewise_status tilewise_multiply(tilewise_matmul* matmul,
                                               const tilewise_problem* problem,
                                               const tilewise_call* call);

/* The same on host pointers: copies to the device and back, and waits. Scalars in device memory and
 * packed operands are TILEWISE_INVALID_ARGUMENT, epilogues, invariant
 * products and an operand_b TILEWISE_UNSUPPORTED; the stream is ignored. Large products are split
 * into tiles, whose copies and products overlap. */
TILEWISE_API tilewise_status tilewise_multiply_host(tilewise_matmul* matmul,
                                                    const tilewise_problem* problem,
                                                    const tilewise_call* call);

/* Writes how tilewise_multiply_host() splits such a product (tightly packed, alpha = 1, beta = 0)
 * as JSON: {"tile": [m, n, k], "tile_batch", "tiles", "device_bytes", "staging_bytes" (page-locked
 * host memory), "bytes_up", "bytes_down", "expected_seconds" (0: not known)}. `text`, `capacity`
 * and `needed` are those of tilewise_explain(). TILEWISE_OUT_OF_MEMORY if the smallest split does
 * not fit. */
TILEWISE_API tilewise_status tilewise_host_split(tilewise_matmul* matmul,
                                                 const tilewise_problem* problem, char* text,
                                                 size_t capacity, size_t* needed);

/* Writes 32 hexadecimal digits and a final 0 into `text`, of 33 bytes: a hash of the GPU model and
 * of the orders of sums in which `count` invariant products are served. Equal digits of two
 * processes mean equal orders. m, batch, layout of A and alignment do not count. */
TILEWISE_API tilewise_status tilewise_fingerprint(tilewise_matmul* matmul,
                                                  const tilewise_problem* problems, size_t count,
                                                  char* text);

/* tilewise_prepare() and tilewise_explain() for any problem. The problem's alignment must be that
 * of the later products: a product of another alignment is another problem. */
TILEWISE_API tilewise_status tilewise_prepare_problem(tilewise_matmul* matmul,
                                                      const tilewise_problem* problem);
/* The same for every m from problem->m to `last_m`; see Matmul::prepare_range(). */
TILEWISE_API tilewise_status tilewise_prepare_range(tilewise_matmul* matmul,
                                                    const tilewise_problem* problem,
                                                    int64_t last_m);
TILEWISE_API tilewise_status tilewise_explain_problem(tilewise_matmul* matmul,
                                                      const tilewise_problem* problem, char* text,
                                                      size_t capacity, size_t* needed);

/* Packs A (B) once for many products: of `problem`, and of other problems whose kernel needs the
 * same form of it (another m, for example). The original must not change: products whose kernel
 * needs another form read it. Runs on `stream` and is done on return. *packed is set on success;
 * tilewise_packed_destroy() destroys it after the products that use it are done. */
TILEWISE_API tilewise_status tilewise_pack_a(tilewise_matmul* matmul,
                                             const tilewise_problem* problem, const void* a,
                                             int64_t lda, int64_t stride_a, tilewise_stream stream,
                                             tilewise_packed** packed);
TILEWISE_API tilewise_status tilewise_pack_b(tilewise_matmul* matmul,
                                             const tilewise_problem* problem, const void* b,
                                             int64_t ldb, int64_t stride_b, tilewise_stream stream,
                                             tilewise_packed** packed);

/* Device memory of a packed operand in bytes; 0 if its kernel reads the original, and for NULL. */
TILEWISE_API int64_t tilewise_packed_bytes(const tilewise_packed* packed);

/* Destroys a packed operand. NULL does nothing. */
TILEWISE_API void tilewise_packed_destroy(tilewise_packed* packed);

/* The rows of a matrix as 8-bit floats with a scale for each 128 neighbours of a row
 * (quantization.hpp of the C++ interface): activations for products with an epilogue acc(a[i,k/128]
 * * ...). Device memory; sizes in elements. */
typedef struct tilewise_quantization {
  size_t struct_size;
  tilewise_type from; /* TILEWISE_F32, _F16 or _BF16 */
  tilewise_type to;   /* TILEWISE_E4M3 or _E5M2 */
  int64_t rows, columns;
  const void* matrix; /* rows x columns, row-major, with leading dimension ld */
  int64_t ld;
  void* numbers; /* rows x columns of `to` */
  int64_t ld_numbers;
  float* scales; /* rows x ceil(columns / 128), with k_first = 1 the transpose */
  int64_t ld_scales;
  int64_t k_first; /* 0 or 1 */
  tilewise_stream stream;
} tilewise_quantization;
#define TILEWISE_QUANTIZATION_INIT                                                                \
  {                                                                                               \
    sizeof(tilewise_quantization), TILEWISE_BF16, TILEWISE_E4M3, 0, 0, NULL, 0, NULL, 0, NULL, 0, \
        0, NULL                                                                                   \
  }

/* Enqueues a quantization. A scale is the largest magnitude of its block over the largest number of
 * `to`, at least 2^-126. NaN counts in no magnitude and stays NaN; an infinite element makes its
 * scale infinite. The three matrices share no memory. TILEWISE_INVALID_ARGUMENT for other types and
 * sizes, and for the first quantization of these types inside a capture;
 * TILEWISE_COMPILER_ERROR without a compiler. */
TILEWISE_API tilewise_status tilewise_quantize(tilewise_matmul* matmul,
                                               const tilewise_quantization* quantization);

/* Sets *math to the mode in which `problem` (its own mode is ignored) is fastest with an error of
 * at most `accuracy`, relative to |A| |B| element by element. TILEWISE_INVALID_ARGUMENT if no mode
 * is that accurate; the message has the bound of every mode. */
TILEWISE_API tilewise_status tilewise_fastest_within(tilewise_matmul* matmul,
                                                     const tilewise_problem* problem,
                                                     double accuracy, tilewise_math* math);

/* The message of this thread's last call that did not return TILEWISE_OK: one line, valid until the
 * thread's next call. Empty if there was no such call. */
TILEWISE_API const char* tilewise_last_error(void);

#ifdef __cplusplus
}
#endif
#undef TILEWISE_INT

#endif
