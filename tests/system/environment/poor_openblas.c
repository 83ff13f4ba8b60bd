/* Loaded before OpenBLAS: it then seems not to know the processor, whatever the environment says.
 */
char* openblas_get_corename(void);
char* openblas_get_corename(void) { return (char*)"Prescott"; }
