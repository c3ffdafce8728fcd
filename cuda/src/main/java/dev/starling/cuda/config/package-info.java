/** The settings of the backend. */
package dev.starling.cuda.config;
