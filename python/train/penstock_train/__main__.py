from penstock_train._command import main

main()
