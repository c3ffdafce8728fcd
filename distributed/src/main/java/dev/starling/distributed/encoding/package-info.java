/** Encodings that several packages use. */
package dev.starling.distributed.encoding;
