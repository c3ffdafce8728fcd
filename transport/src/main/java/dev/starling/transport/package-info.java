/**
 * Messages and one-sided writes between processes that share a secret, over any {@linkplain
 * dev.starling.transport.spi.Wire wire}.
 */
package dev.starling.transport;
