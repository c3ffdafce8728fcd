/** The root of Starling's exceptions. */
package dev.starling.errors;
