/* What is called of libsodium, and of sodium.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 0 if the 64 bytes are a signature of the message by the key of 32 bytes. It refuses keys and signatures of small
 * order and numbers that are not reduced, as PyNaCl does on the host. */
int crypto_sign_ed25519_verify_detached(const unsigned char* signature, const unsigned char* message,
                                        unsigned long long size, const unsigned char* key);
/* Whether the 32 bytes are a point of the curve's main group, in its one encoding: any honest public key is. */
int edge_is_public_key(const unsigned char* key);

#ifdef __cplusplus
}
#endif
