/** The root of Starling's exceptions, and what their messages share. */
package dev.starling.errors;
