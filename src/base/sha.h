/* sha.h: SHA-256. */
#ifndef CADRE_BASE_SHA_H
#define CADRE_BASE_SHA_H
#include <stddef.h>
#include <stdint.h>

typedef struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
} sha256;
void sha256_init(sha256 *s);
void sha256_add(sha256 *s, const void *data, size_t len);
void sha256_hex(sha256 *s, char hex[65]); /* ends the digest */
#endif
