/** Calls of the operating system. */
package dev.starling.transport.system;
