/** Compression of gradients: only the largest elements, or factors of low rank. */
@NullMarked
package dev.starling.distributed.codec;

import org.jspecify.annotations.NullMarked;
