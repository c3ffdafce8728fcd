/** The bytes of a frame: header, body and checksum. */
package dev.starling.transport.frame;
