/** A wire over TCP. */
package dev.starling.transport.tcp;
